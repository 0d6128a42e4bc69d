"""Surroundings of every unit test: no keys, grants and proxies of whoever runs it."""

import os

import pytest


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        granted = name.startswith("AGENTFLOW_") and name != "AGENTFLOW_SANDBOX"
        if granted or name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
