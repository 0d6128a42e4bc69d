"""What every test of the tools needs: no proxy between it and its servers, and no rules of an earlier test's sites."""

import pytest

from agentflow.tools.web import robots


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    robots.forget()
