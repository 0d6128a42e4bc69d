"""Surroundings of every test of the tools: no proxy, and no robots.txt rules of an earlier test."""

import pytest

from agentflow.tools.web import robots


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    robots.forget()
