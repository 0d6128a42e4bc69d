"""Surroundings of every unit test: no keys, grants and proxies of whoever runs it; models whose replies it writes."""

import os
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        granted = name.startswith("AGENTFLOW_") and name != "AGENTFLOW_SANDBOX"
        if granted or name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    from tests.scripted import Scripted  # not for tests that need no agent

    def install(**replies: Any) -> Scripted:
        script = Scripted(**replies)
        script.install(monkeypatch)
        return script

    return install
