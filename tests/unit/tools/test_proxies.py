import os

import httpx
import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.proxies import without_proxy

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@pytest.mark.parametrize("name", ["HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("before", ["", "internal.example,localhost"])
def test_a_server_of_this_machine_is_reached_without_the_proxy(
    name: str, before: str, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/").respond_with_data("here")
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", before)
    monkeypatch.setenv("no_proxy", before)
    for _ in range(2):
        without_proxy("10.1.2.3")
    assert httpx.get(f"http://127.0.0.1:{httpserver.port}/").text == "here"
    known = os.environ["no_proxy"].split(",")
    assert sorted(known) == sorted({"10.1.2.3", *LOOPBACK, *filter(None, before.split(","))})


@pytest.mark.parametrize(("name", "before"), [("http_proxy", "*"), ("unrelated", "")])
def test_an_environment_that_needs_no_exceptions_stays_as_it_is(
    name: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", before)
    without_proxy()
    assert os.environ["no_proxy"] == before
    assert "NO_PROXY" not in os.environ
