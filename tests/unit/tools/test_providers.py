"""The search engines' own protocols, spoken by servers on loopback over real HTTP."""

import json
import sys
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.google_search import google_search
from agentflow.tools.providers import community
from agentflow.tools.providers.choice import Automatic, provider_of, state
from agentflow.tools.providers.community import Community
from agentflow.tools.providers.gemini import Gemini
from agentflow.tools.providers.provider import Hit, SearchProvider, SearchResult
from agentflow.tools.providers.serper import Serper
from agentflow.tools.providers.tavily import Tavily
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.web.safe_http import FetchPolicy
from tests.cases import sections
from tests.waiting import LAST_RESORT


async def search(provider: SearchProvider, query: str = "nobel  2024") -> ToolResult:
    return await run_tool(google_search(provider), {"query": query}, LAST_RESORT)


@pytest.fixture
def engines(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, SearchProvider]:
    for name, key in (("TAVILY", "tvly-secret"), ("SERPER", "serper-secret"), ("GEMINI", "gemini-secret")):
        monkeypatch.setenv(f"{name}_API_KEY", key)
    policy = FetchPolicy(allowed=frozenset({(httpserver.host, httpserver.port)}), seconds=LAST_RESORT)
    return {
        "tavily": Tavily(httpserver.url_for(""), seconds=LAST_RESORT),
        "serper": Serper(httpserver.url_for("/search"), seconds=LAST_RESORT),
        "gemini": Gemini("some-model", httpserver.url_for("/v1beta"), seconds=20, policy=policy),
    }


PATHS = {"tavily": "/search", "serper": "/search", "gemini": "/v1beta/models/some-model:generateContent"}
HITS, FAILURES, [GROUNDED] = sections(__file__, "providers.txt").values()


@pytest.mark.parametrize(("engine", "reply", "lines", "header", "body"), HITS)
async def test_hits_become_short_numbered_lines(
    httpserver: HTTPServer,
    engines: dict[str, SearchProvider],
    engine: str,
    reply: Any,
    lines: Any,
    header: Any,
    body: Any,
) -> None:
    httpserver.expect_request("/search", method="POST").respond_with_json(reply)
    result = await search(engines[engine])
    assert (result.error, result.provider, result.output.splitlines()) == (None, engine, lines)
    ((request, _),) = httpserver.log
    assert request.headers[header[0]] == header[1]
    assert request.get_json(force=True).items() >= body.items()


@pytest.mark.parametrize(("engine", "status", "reply", "error", "message"), FAILURES)
async def test_a_failure_is_one_line_without_the_key_and_asked_once(
    httpserver: HTTPServer,
    engines: dict[str, SearchProvider],
    engine: str,
    status: int,
    reply: Any,
    error: ErrorClass,
    message: str,
) -> None:
    body = reply if isinstance(reply, str) else json.dumps(reply)
    httpserver.expect_request(PATHS[engine]).respond_with_data(body, status)
    result = await search(engines[engine])
    assert (result.error, len(httpserver.log)) == (error, 1)
    assert message in result.output
    assert "secret" not in result.output
    assert "\n" not in result.output


async def test_without_an_answer_a_connection_or_a_key(
    httpserver: HTTPServer, never: Any, engines: dict[str, SearchProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/search").respond_with_handler(never)
    assert (await search(Tavily(httpserver.url_for(""), seconds=0.5))).error is ErrorClass.TIMEOUT
    refused = await search(Tavily("http://127.0.0.1:9"))
    assert refused.output == "the search engine could not be reached (ConnectError)"
    for name, engine in engines.items():
        monkeypatch.delenv(f"{name.upper()}_API_KEY")
        assert f"set {name.upper()}_API_KEY to one from https://" in (await search(engine)).output


# Gemini's citations.


def grounded(server: HTTPServer) -> Any:
    return json.loads(json.dumps(GROUNDED).replace("SERVER", server.url_for("").rstrip("/")))


async def test_gemini_cites_pages_and_is_declared(httpserver: HTTPServer, engines: dict[str, SearchProvider]) -> None:
    httpserver.expect_request(PATHS["gemini"], method="POST").respond_with_json(grounded(httpserver))
    httpserver.expect_request("/r/1").respond_with_data("", 302, {"Location": "https://a.example/page"})
    httpserver.expect_request("/r/2").respond_with_data("", 302, {"Location": "https://b.example/page"})
    httpserver.expect_request("/r/3").respond_with_data("gone", 404)
    result = await search(engines["gemini"])
    assert result.output.splitlines() == [
        *("1. b.example", "https://b.example/page", "One sentence. Another one."),
        *("2. a.example", "https://a.example/page", "One sentence."),
        *("3. c.example", httpserver.url_for("/r/3")),
    ]
    assert result.provider == "gemini (gemini-test-001)"
    request = next(request for request, _ in httpserver.log if request.path == PATHS["gemini"])
    assert request.headers["x-goog-api-key"] == "gemini-secret"
    assert "gemini-secret" not in request.url
    body = request.get_json()
    assert body["tools"] == [{"google_search": {}}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "nobel 2024"}]}]


async def test_a_citation_that_leads_inside_is_not_followed(
    httpserver: HTTPServer, engines: dict[str, SearchProvider]
) -> None:
    reply = grounded(httpserver)
    reply["candidates"][0]["groundingMetadata"]["groundingChunks"][1]["web"]["uri"] = "http://127.0.0.1:1/latest"
    httpserver.expect_request(PATHS["gemini"]).respond_with_json(reply)
    httpserver.expect_request("/r/1").respond_with_data("", 302, {"Location": "http://[bad"})
    httpserver.expect_request("/r/3").respond_with_data("")
    result = await search(engines["gemini"])
    assert "http://127.0.0.1:1/latest" in result.output  # named, not asked
    assert result.error is None


# langchain-community's wrappers.


async def test_searx_through_langchain_community(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_community")
    monkeypatch.setenv("SEARX_HOST", httpserver.url_for("").rstrip("/"))
    found = [{"title": "T", "url": "https://a.example/", "content": "c", "engines": ["x"], "category": "general"}]
    httpserver.expect_request("/").respond_with_json({"results": found, "answers": [], "infoboxes": []})
    result = await search(Community("searx"))
    assert (result.output, result.provider) == ("1. T\nhttps://a.example/\nc", "community:searx")


async def test_what_a_wrapper_raises_is_one_line_and_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def results(self, query: str, k: int) -> list[dict[str, str]]:
            raise RuntimeError("no\nidea")

    with monkeypatch.context() as patch:
        patch.setattr(community, "_wrapper", lambda name: Broken())
        result = await search(Community("duckduckgo"))
    assert (result.error, "(RuntimeError: no idea)" in result.output) == (ErrorClass.TOOL_ERROR, True)
    monkeypatch.setitem(sys.modules, "langchain_community", None)
    assert "[community]" in (await search(Community("searx"))).output


# Which one is asked.


def test_an_engine_by_its_spec() -> None:
    kinds = {"auto": Automatic, "tavily": Tavily, "serper": Serper, "gemini:gemini-2.5-pro": Gemini}
    assert {spec: type(provider_of(spec)) for spec in kinds} == kinds
    for spec in ("", "bing", "tavily:x", "community", "community:x", "gemini:../../x", "gemini:a b"):
        with pytest.raises(ValueError, match=f"'{spec}'"):
            provider_of(spec)
        assert state(spec)[0] is False


async def test_auto_asks_the_first_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def recorded(engine: SearchProvider, query: str, k: int) -> SearchResult:
        asked.append(type(engine).__name__)
        return SearchResult([Hit("t", "https://t.example", "s")], "t")

    for engine in (Tavily, Serper, Gemini):
        monkeypatch.setattr(engine, "search", recorded)
    for variable in ("GOOGLE_API_KEY", "SERPER_API_KEY", "TAVILY_API_KEY"):  # set while the program runs
        monkeypatch.setenv(variable, " key ")
        await search(provider_of("auto"))
    assert asked == ["Gemini", "Serper", "Tavily"]


async def test_without_any_key_auto_names_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    result = await search(provider_of("auto"))
    assert all(name in result.output for name in ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY"))
    assert state("auto") == (False, result.output.removeprefix("google_search needs a key: "))
    assert state("serper") == (False, "set SERPER_API_KEY (https://serper.dev)")
    monkeypatch.setenv("SERPER_API_KEY", "k")
    assert state("auto") == (True, "asks serper")
