"""The search engines' own protocols, spoken by servers on loopback over real HTTP."""

import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.google_search import google_search
from agentflow.tools.providers import choice, community
from agentflow.tools.providers.choice import Automatic, provider_of, state
from agentflow.tools.providers.community import Community
from agentflow.tools.providers.gemini import Gemini
from agentflow.tools.providers.provider import Hit, SearchProvider, SearchResult
from agentflow.tools.providers.serper import Serper
from agentflow.tools.providers.tavily import Tavily
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.search_settings import ENGINES
from agentflow.tools.web.safe_http import FetchPolicy
from tests.hanging import Handler
from tests.waiting import LAST_RESORT

KEYS = ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


async def search(provider: SearchProvider, query: str = "nobel  2024") -> ToolResult:
    return await run_tool(google_search(provider), {"query": query}, LAST_RESORT)


async def failed(httpserver: HTTPServer, provider: SearchProvider, path: str, reply: Any, status: int = 200) -> str:
    """The one line of a search whose engine gives that reply; it was asked once, and shows no key."""
    if isinstance(reply, str):
        httpserver.expect_request(path).respond_with_data(reply, status)
    else:
        httpserver.expect_request(path).respond_with_json(reply, status=status)
    result = await search(provider)
    assert result.error is ErrorClass.TOOL_ERROR
    assert len(httpserver.log) == 1
    assert "secret" not in result.output
    assert "\n" not in result.output
    return result.output


# Tavily.


@pytest.fixture
def tavily(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Tavily:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Tavily(httpserver.url_for(""), seconds=LAST_RESORT)


async def test_tavilys_hits_become_short_numbered_lines(httpserver: HTTPServer, tavily: Tavily) -> None:
    first = {
        "title": "Nobel Prize\nin Physics",
        "url": "https://a.example/1",
        "content": "Hopfield  and\nHinton",
        "score": 1,
    }
    second = {"title": "News", "url": "https://b.example/2", "content": "w" * 1000, "published_date": "2024-10-08"}
    httpserver.expect_request("/search", method="POST").respond_with_json({"results": [first, second]})
    result = await search(tavily)
    assert result.error is None
    assert result.output.splitlines() == [
        *("1. Nobel Prize in Physics", "https://a.example/1", "Hopfield and Hinton"),
        *("2. News (2024-10-08)", "https://b.example/2", "w" * 400),
    ]
    ((request, _),) = httpserver.log
    assert request.headers["Authorization"] == "Bearer tvly-secret"
    assert request.get_json(force=True).items() >= {"query": "nobel 2024", "max_results": 5}.items()


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
        (200, "<html>", "could not be read"),
    ],
)
async def test_tavilys_failures(httpserver: HTTPServer, tavily: Tavily, status: int, body: Any, message: str) -> None:
    assert message in await failed(httpserver, tavily, "/search", body, status)


async def test_without_a_hit_an_answer_or_a_connection(
    httpserver: HTTPServer, tavily: Tavily, never: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_oneshot_request("/search").respond_with_json({"results": []})
    assert (await search(tavily)).error is ErrorClass.EMPTY_RESULT
    httpserver.expect_request("/search").respond_with_handler(never)
    assert (await search(Tavily(httpserver.url_for(""), seconds=0.5))).error is ErrorClass.TIMEOUT
    refused = await search(Tavily("http://127.0.0.1:9"))
    assert refused.output == "the search engine could not be reached (ConnectError)"
    monkeypatch.delenv("TAVILY_API_KEY")
    assert (
        await search(tavily)
    ).output == "google_search needs a key: set TAVILY_API_KEY to one from https://tavily.com"


# Serper.


@pytest.fixture
def serper(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Serper:
    monkeypatch.setenv("SERPER_API_KEY", "serper-secret")
    return Serper(httpserver.url_for("/search"), seconds=LAST_RESORT)


ORGANIC = {
    "searchParameters": {"q": "nobel 2024", "type": "search"},
    "organic": [
        {"title": "Nobel Prize", "link": "https://a.example/", "snippet": "Hopfield\nand Hinton", "position": 1},
        {"title": "News", "link": "https://b.example/", "snippet": "s", "date": "Oct 8, 2024", "position": 2},
    ],
}


async def test_serper_gives_googles_results(httpserver: HTTPServer, serper: Serper) -> None:
    httpserver.expect_request("/search", method="POST").respond_with_json(ORGANIC)
    result = await search(serper)
    assert result.output.splitlines() == [
        *("1. Nobel Prize", "https://a.example/", "Hopfield and Hinton"),
        *("2. News (Oct 8, 2024)", "https://b.example/", "s"),
    ]
    assert result.provider == "serper"
    ((request, _),) = httpserver.log
    assert request.headers["X-API-KEY"] == "serper-secret"
    assert request.get_json() == {"q": "nobel 2024", "num": 5}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, {"message": "Unauthorized."}, "the search engine refused the key; check SERPER_API_KEY"),
        (400, {"message": "Query not allowed"}, "the search engine answered with HTTP 400"),
        (200, {"organic": [1]}, "gave an answer that could not be read"),
        (200, {"organic": 5}, "gave an answer that could not be read"),
        (200, [], "did not answer with a JSON object"),
    ],
)
async def test_serpers_failures(httpserver: HTTPServer, serper: Serper, status: int, body: Any, message: str) -> None:
    assert message in await failed(httpserver, serper, "/search", body, status)


# Gemini.


def grounded(server: HTTPServer) -> dict[str, Any]:
    """A reply of the API: three pages, of which the second is cited twice and the third never."""
    pages = [("a.example", "/r/1"), ("b.example", "/r/2"), ("c.example", "/r/3")]
    supports = [("One sentence.", [0, 1]), ("Another one.", [1])]
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "One sentence. Another one."}]},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "webSearchQueries": ["nobel 2024"],
                    "groundingChunks": [{"web": {"title": t, "uri": server.url_for(path)}} for t, path in pages],
                    "groundingSupports": [
                        {"segment": {"endIndex": 9, "text": text}, "groundingChunkIndices": numbers}
                        for text, numbers in supports
                    ],
                },
            }
        ],
        "modelVersion": "gemini-test-001",
    }


@pytest.fixture
def gemini(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Gemini:
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-secret")
    policy = FetchPolicy(allowed=frozenset({(httpserver.host, httpserver.port)}), seconds=LAST_RESORT)
    return Gemini("some-model", httpserver.url_for("/v1beta"), seconds=20, policy=policy)


CALL = "/v1beta/models/some-model:generateContent"


async def test_gemini_cites_pages_and_is_declared(httpserver: HTTPServer, gemini: Gemini) -> None:
    httpserver.expect_request(CALL, method="POST").respond_with_json(grounded(httpserver))
    httpserver.expect_request("/r/1").respond_with_data("", 302, {"Location": "https://a.example/page"})
    httpserver.expect_request("/r/2").respond_with_data("", 302, {"Location": "https://b.example/page"})
    httpserver.expect_request("/r/3").respond_with_data("gone", 404)
    result = await search(gemini)
    assert result.output.splitlines() == [
        *("1. b.example", "https://b.example/page", "One sentence. Another one."),
        *("2. a.example", "https://a.example/page", "One sentence."),
        *("3. c.example", httpserver.url_for("/r/3")),
    ]
    assert result.provider == "gemini (gemini-test-001)"
    request = next(request for request, _ in httpserver.log if request.path == CALL)
    assert request.headers["x-goog-api-key"] == "gemini-secret"
    assert "gemini-secret" not in request.url
    body = request.get_json()
    assert body["tools"] == [{"google_search": {}}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "nobel 2024"}]}]


async def test_a_citation_that_leads_inside_is_not_followed(httpserver: HTTPServer, gemini: Gemini) -> None:
    reply = grounded(httpserver)
    reply["candidates"][0]["groundingMetadata"]["groundingChunks"][1]["web"]["uri"] = "http://127.0.0.1:1/latest"
    httpserver.expect_request(CALL).respond_with_json(reply)
    httpserver.expect_request("/r/1").respond_with_data("", 302, {"Location": "http://[bad"})
    httpserver.expect_request("/r/3").respond_with_data("")
    result = await search(gemini)
    assert "http://127.0.0.1:1/latest" in result.output  # named, not asked
    assert result.error is None


@pytest.mark.parametrize(
    "reply", [{}, {"candidates": []}, {"candidates": [{"content": {"parts": [{"text": "I know it."}]}}]}]
)
async def test_an_answer_that_rests_on_no_page_is_an_empty_result(
    httpserver: HTTPServer, gemini: Gemini, reply: dict[str, Any]
) -> None:
    httpserver.expect_request(CALL).respond_with_json(reply)
    assert (await search(gemini)).error is ErrorClass.EMPTY_RESULT


OTHERS = [
    *({"groundingChunks": [1]}, {"groundingChunks": 3}, 5),
    {"groundingChunks": [{}], "groundingSupports": [{"groundingChunkIndices": [7]}]},
]


@pytest.mark.parametrize("metadata", OTHERS)
async def test_an_answer_of_another_form_cannot_be_read(httpserver: HTTPServer, gemini: Gemini, metadata: Any) -> None:
    assert "could not be read" in await failed(
        httpserver, gemini, CALL, {"candidates": [{"groundingMetadata": metadata}]}
    )


# langchain-community's wrappers.


async def test_searx_through_langchain_community(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_community")
    monkeypatch.setenv("SEARX_HOST", httpserver.url_for("").rstrip("/"))
    found = [{"title": "T", "url": "https://a.example/", "content": "c", "engines": ["x"], "category": "general"}]
    httpserver.expect_request("/").respond_with_json({"results": found, "answers": [], "infoboxes": []})
    result = await search(Community("searx"))
    assert (result.output, result.provider) == ("1. T\nhttps://a.example/\nc", "community:searx")


async def test_what_a_wrapper_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def results(self, query: str, k: int) -> list[dict[str, str]]:
            raise RuntimeError("no\nidea")

    monkeypatch.setattr(community, "_wrapper", lambda name: Broken())
    result = await search(Community("duckduckgo"))
    assert (result.error, result.output) == (
        ErrorClass.TOOL_ERROR,
        "the search engine failed (RuntimeError: no idea)",
    )


async def test_without_langchain_community_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_community", None)
    assert "pip install 'agentflow-langgraph[community]'" in (await search(Community("searx"))).output


# Which one is asked.


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("auto", Automatic),
        ("tavily", Tavily),
        ("serper", Serper),
        ("gemini", Gemini),
        ("gemini:gemini-2.5-pro", Gemini),
        ("community:searx", Community),
    ],
)
def test_an_engine_by_its_spec(spec: str, kind: type) -> None:
    assert type(provider_of(spec)) is kind


@pytest.mark.parametrize("spec", ["", "bing", "tavily:x", "community", "community:x", "gemini:../../x", "gemini:a b"])
def test_another_spec_names_those_that_there_are(spec: str) -> None:
    with pytest.raises(ValueError, match=f"'{spec}'"):
        provider_of(spec)
    assert state(spec)[0] is False


def test_help_and_example_environment_list_the_engines() -> None:
    assert [name for name in ENGINES if name.islower()] == [*choice.WITH_KEY]
    for spec in ENGINES:
        provider_of(spec.replace("MODEL", "gemini-2.5-pro").replace("NAME", "searx"))
    example = (Path(__file__).parents[3] / ".env.example").read_text()
    places = [example.index(f"\n{engine.keys[0]}=") for engine in choice.WITH_KEY.values()]
    assert places == sorted(places)


async def test_auto_asks_the_first_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def recorder(name: str) -> type:
        class Recorder:
            keys = choice.WITH_KEY[name].keys

            async def search(self, query: str, k: int) -> SearchResult:
                asked.append(name)
                return SearchResult([Hit("t", "https://t.example", "s")], name)

        return Recorder

    monkeypatch.setattr(choice, "WITH_KEY", {name: recorder(name) for name in choice.WITH_KEY})
    for variable in ("GOOGLE_API_KEY", "SERPER_API_KEY", "TAVILY_API_KEY"):  # set while the program runs
        monkeypatch.setenv(variable, " key ")
        await search(provider_of("auto"))
    assert asked == ["gemini", "serper", "tavily"]


async def test_without_any_key_auto_names_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    result = await search(provider_of("auto"))
    assert all(name in result.output for name in ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY"))
    assert state("auto") == (False, result.output.removeprefix("google_search needs a key: "))
    assert state("serper") == (False, "set SERPER_API_KEY (https://serper.dev)")
    monkeypatch.setenv("SERPER_API_KEY", "k")
    assert state("auto") == (True, "asks serper")


async def test_a_chosen_engine_without_its_key_says_which(httpserver: HTTPServer) -> None:
    result = await search(provider_of("gemini"))
    assert "set GEMINI_API_KEY to one from https://aistudio.google.com" in result.output
