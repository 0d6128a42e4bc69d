import asyncio
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.encyclopedia.mediawiki import MediaWiki
from agentflow.tools.google_search import google_search
from agentflow.tools.providers.provider import Hit, SearchResult
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import run_tool
from agentflow.tools.search_cache import SearchCache, parse_mode, search_cache, unusable
from agentflow.tools.web.safe_http import FetchPolicy
from agentflow.tools.web_search import web_search
from agentflow.tools.wikipedia_search import wikipedia_search
from tests.failing import fails
from tests.waiting import LAST_RESORT


class Source:
    """A source that counts its requests and gives scripted replies."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: object = "first"
        self.go = asyncio.Event()
        self.go.set()
        self.reached = asyncio.Event()

    async def __call__(self) -> object:
        self.asked += 1
        self.reached.set()
        await self.go.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def cache(tmp_path: Path, mode: str) -> SearchCache:
    return SearchCache(mode, tmp_path / "folder" / "search.sqlite")


async def asked(cache: SearchCache, source: Source, *key: str) -> tuple[object, int]:
    """The answer, and how often the source was asked in all."""
    return await cache.get(*(key or ("t", "s", "q")), source), source.asked


async def test_use_asks_for_what_it_lacks_and_replay_never(tmp_path: Path) -> None:
    used, source = cache(tmp_path, "use"), Source()
    source.says = ToolFailure(ErrorClass.TIMEOUT, "too slow")
    with fails(ToolFailure, "timeout"):  # which is not kept
        await asked(used, source)
    source.says = {"second": ["ä", 1, None]}
    assert [await asked(used, source) for _ in range(3)] == [(source.says, 2)] * 3
    others = [("t", "s", "q2"), ("t", "s2", "q"), ("t2", "s", "q")]
    assert [(await asked(used, source, *key))[1] for key in others] == [3, 4, 5]
    for mode in ("use", "replay"):  # another process
        assert await asked(cache(tmp_path, mode), source) == (source.says, 5)
    with fails(ToolFailure, "no_recording", "other"):
        await cache(tmp_path, "replay").get("t", "s", "other", source)


async def test_identical_requests_under_way_are_one(tmp_path: Path) -> None:
    shared, source = cache(tmp_path, "use"), Source()
    source.go.clear()
    waiting = [asyncio.create_task(shared.get("t", "s", "q", source)) for _ in range(50)]
    await source.reached.wait()
    waiting[1].cancel()
    source.go.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers.pop(1), asyncio.CancelledError)
    assert answers == ["first"] * 49
    assert source.asked == 1


def test_event_loops_share_the_file_and_not_the_flight(tmp_path: Path) -> None:
    shared, source = cache(tmp_path, "use"), Source()
    assert [asyncio.run(asked(shared, source)) for _ in range(2)] == [("first", 1)] * 2


async def test_a_recording_may_be_read_only_and_any_text_may_be_asked(tmp_path: Path) -> None:
    recording, source = cache(tmp_path, "use"), Source()
    for query in ("", "\0", "\ud800", '"; DROP TABLE answer', "x" * 100_000):
        await recording.get("t", "s", query, source)
    recording._open().close()
    recording.path.chmod(0o444)
    recording.path.parent.chmod(0o555)
    try:
        replayed = cache(tmp_path, "replay")
        assert await replayed.get("t", "s", "\ud800", source) == "first"
    finally:
        recording.path.parent.chmod(0o755)
    assert source.asked == 5


async def test_modes_and_files(tmp_path: Path) -> None:
    assert search_cache("off") is None
    assert parse_mode("use")[1].name == "search.sqlite"
    assert parse_mode("use:a:b") == ("use", Path("a:b"))
    assert parse_mode("replay:~/a.sqlite")[1] == Path.home() / "a.sqlite"
    for wrong in ("", "on", "record", "use:", "off:x", "Replay"):
        with pytest.raises(ValueError, match="MODE:FILE"):
            parse_mode(wrong)
    assert "make it with --context search_cache=use:" in (unusable(f"replay:{tmp_path / 'none'}") or "")
    assert unusable(f"use:{tmp_path / 'new'}") is None
    (tmp_path / "text").write_text("no database, and long enough to be told apart" * 50)
    with fails(ToolFailure, "unusable_cache", "text"):
        await SearchCache("use", tmp_path / "text").get("t", "s", "q", Source())
    assert "is not a search cache" in (unusable(f"use:{tmp_path / 'text'}") or "")


# The three tools with a cache.


async def test_google_search_is_replayed_without_an_engine(tmp_path: Path) -> None:
    class Engine:
        there = True

        async def search(self, query: str, k: int) -> SearchResult:
            assert self.there
            return SearchResult([Hit("T", "https://a.example", query, "2024")], "gemini", "some-model")

    engine = Engine()
    recorded = await run_tool(google_search(engine, cache(tmp_path, "use")), {"query": " a  b "}, LAST_RESORT)
    engine.there = False
    replayed = await run_tool(google_search(engine, cache(tmp_path, "replay")), {"query": "a b"}, LAST_RESORT)
    assert recorded.output == replayed.output == "1. T (2024)\nhttps://a.example\na b"
    assert recorded.provider == replayed.provider == "gemini (some-model)"


async def test_wikipedia_search_is_replayed_without_a_server(tmp_path: Path, httpserver: HTTPServer) -> None:
    pages = [{"title": "Velmora", "index": 1, "extract": "A city."}, {"title": "Tarn", "index": 2, "extract": "Land."}]
    httpserver.expect_request("/api.php").respond_with_json({"query": {"pages": pages}})
    for query, expected in (("velmora", "Velmora: A city."), ("sea", 'No page is titled "sea"')):
        for mode in ("use", "replay"):
            tool = wikipedia_search(MediaWiki(httpserver.url_for("/api.php")), cache(tmp_path, mode))
            assert (await run_tool(tool, {"query": query}, LAST_RESORT)).output.startswith(expected)
    assert len(httpserver.log) == 2


async def test_a_page_is_replayed_and_the_models_answer_is_not(tmp_path: Path, httpserver: HTTPServer) -> None:
    answers = iter(["first", "second"])

    async def ask(prompt: str) -> str:
        assert "The code is 7." in prompt
        return next(answers)

    httpserver.expect_request("/robots.txt").respond_with_data("", 404)
    httpserver.expect_oneshot_request("/a").respond_with_data("The code is 7.", content_type="text/plain")
    policy = FetchPolicy(allowed=frozenset({(httpserver.host, httpserver.port)}))
    url = httpserver.url_for("/a")
    for mode, answer in (("use", "first"), ("replay", "second")):
        tool = web_search(ask, policy, cache=cache(tmp_path, mode))
        result = await run_tool(tool, {"query": "code?", "url": url}, LAST_RESORT)
        assert result.output == f"{answer}\nSource: {url}"
