from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.google_search import google_search
from agentflow.tools.providers.provider import Hit, SearchResult
from agentflow.tools.providers.tavily import Tavily
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from tests.hanging import Handler
from tests.waiting import LAST_RESORT

RESULTS = {
    "results": [
        {
            "title": "Nobel Prize\nin Physics",
            "url": "https://a.example/1",
            "content": "Hopfield  and\nHinton",
            "score": 0.9,
        },
        {"title": "News", "url": "https://b.example/2", "content": "w" * 1000, "published_date": "2024-10-08"},
    ]
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-test")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


async def search(httpserver: HTTPServer, query: str = "nobel 2024", *, seconds: float = LAST_RESORT) -> ToolResult:
    tavily = Tavily(httpserver.url_for(""), seconds=seconds)
    return await run_tool(google_search(tavily), {"query": query}, LAST_RESORT)


async def test_hits_become_short_numbered_lines(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/search", method="POST").respond_with_json(RESULTS)
    result = await search(httpserver)
    assert result.error is None
    assert result.output.splitlines() == [
        "1. Nobel Prize in Physics",
        "https://a.example/1",
        "Hopfield and Hinton",
        "2. News (2024-10-08)",
        "https://b.example/2",
        "w" * 400,
    ]
    ((request, _),) = httpserver.log
    assert request.headers["Authorization"] == "Bearer tvly-test"
    assert request.get_json(force=True) | {"query": "nobel 2024", "max_results": 5} == request.get_json(force=True)


async def test_a_missing_key_says_how_to_set_it(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    result = await search(httpserver)
    assert result.error is ErrorClass.TOOL_ERROR
    assert result.output == "google_search needs a key: set TAVILY_API_KEY to one from https://tavily.com"
    assert httpserver.log == []


async def test_no_hits_are_an_empty_result(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/search").respond_with_json({"results": []})
    assert (await search(httpserver)).error is ErrorClass.EMPTY_RESULT


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"detail": {"error": "bad key"}}, "refused the key; check TAVILY_API_KEY"),
        (403, {"detail": {"error": "no"}}, "refused the key; check TAVILY_API_KEY"),
        (429, {"detail": {"error": "limit"}}, "usage limit is reached"),
        (400, {"detail": {"error": "too long"}}, "refused the query: too long"),
        (500, {}, "answered with HTTP 500"),
        (200, {"results": [1]}, "could not be read"),
        (200, ["x"], "could not be read"),
    ],
)
async def test_a_failure_is_one_line(httpserver: HTTPServer, status: int, body: Any, message: str) -> None:
    httpserver.expect_request("/search").respond_with_json(body, status=status)
    result = await search(httpserver)
    assert result.error is ErrorClass.TOOL_ERROR
    assert message in result.output
    assert "tvly-test" not in result.output


async def test_an_answer_that_is_not_json_cannot_be_read(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/search").respond_with_data("<html>")
    assert "could not be read" in (await search(httpserver)).output


async def test_a_server_that_hangs_is_a_timeout(httpserver: HTTPServer, never: Handler) -> None:
    httpserver.expect_request("/search").respond_with_handler(never)
    assert (await search(httpserver, seconds=0.5)).error is ErrorClass.TIMEOUT


async def test_a_refused_connection_is_named() -> None:
    result = await run_tool(google_search(Tavily("http://127.0.0.1:9")), {"query": "x"}, LAST_RESORT)
    assert result.output == "the search engine could not be reached (ConnectError)"


async def test_the_engine_can_be_replaced() -> None:
    class Fixed:
        async def search(self, query: str, k: int) -> SearchResult:
            return SearchResult([Hit(query, "https://c.example", "mine")][:k], "mine")

    result = await run_tool(google_search(Fixed()), {"query": "x"}, LAST_RESORT)
    assert result.output == "1. x\nhttps://c.example\nmine"
