import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agentflow import __version__
from agentflow.tools.card import ToolCard
from agentflow.tools.encyclopedia.choice import encyclopedia_of, is_local, missing
from agentflow.tools.encyclopedia.corpus import APPLICATION_ID, FORMAT, Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.encyclopedia.encyclopedia import Article
from agentflow.tools.encyclopedia.mediawiki import MediaWiki
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.wikipedia_search import _first_sentence, wikipedia_search
from tests.cases import table
from tests.waiting import LAST_RESORT

PASSAGES = [
    Passage("Velmora", "Velmora is a city in Tarn. It has 41,000 people.\nIt lies by the sea."),
    Passage("Velmora Press", "Velmora Press is a publisher of books."),
    Passage("Ilka Dorn", "Ilka Dorn, b. 1950, is a painter. She lives in Velmora."),
    Passage("Tarn", "Tarn is a country."),
]


async def look_up(query: Any, source: Any) -> ToolResult:
    return await run_tool(wikipedia_search(source), {"query": query}, LAST_RESORT)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """An index of articles: one is so long that their mean length is not that of passages."""
    build(tmp_path / "corpus.db", [*PASSAGES, Passage("Quorn", "A word. " * 1_000)])
    return str(tmp_path / "corpus.db")


async def test_a_page_of_that_title_comes_in_full_else_the_closest_one_line_each(corpus: str, tmp_path: Path) -> None:
    result = await look_up(" velmora ", corpus)
    expected = "Velmora: Velmora is a city in Tarn. It has 41,000 people.\nIt lies by the sea."
    assert (result.error, result.output) == (None, expected)
    lines = (await look_up("the painter of Velmora", corpus)).output.splitlines()
    assert lines[0] == 'No page is titled "the painter of Velmora". Closest pages:'
    assert sorted(lines[1:]) == [
        "- Ilka Dorn: Ilka Dorn, b. 1950, is a painter.",
        "- Velmora Press: Velmora Press is a publisher of books.",
        "- Velmora: Velmora is a city in Tarn.",
    ]
    results = await asyncio.gather(*(look_up("Tarn", corpus) for _ in range(50)))
    assert {result.output for result in results} == {"Tarn: Tarn is a country."}
    missing = await look_up("x", str(tmp_path / "none.db"))
    assert missing.error is ErrorClass.TOOL_ERROR
    assert "none.db; build one with agentflow corpus build" in missing.output


async def test_of_an_index_of_passages_those_of_the_title_or_the_closest_come_in_full(tmp_path: Path) -> None:
    build(tmp_path / "passages.db", [*PASSAGES, *[Passage("Tarn", "It is ruled\nfrom Velmora.")] * 2])
    found = await look_up("the painter of Velmora", str(tmp_path / "passages.db"))
    assert "Ilka Dorn: Ilka Dorn, b. 1950, is a painter. She lives in Velmora." in found.output.splitlines()
    parts = await look_up("tarn", str(tmp_path / "passages.db"))
    assert parts.output.splitlines() == ["Tarn: Tarn is a country.", "Tarn: It is ruled from Velmora."]
    build(tmp_path / "long.db", [Passage("Tarn", f"Part {number}.") for number in range(9)])
    first = await look_up("Tarn", str(tmp_path / "long.db"))
    assert first.output.splitlines() == [f"Tarn: Part {number}." for number in range(5)]


def test_where_the_source_holds_passages_the_tool_takes_a_question(tmp_path: Path, corpus: str) -> None:
    build(tmp_path / "passages.db", PASSAGES)
    with closing(sqlite3.connect(tmp_path / "broken.db")) as broken:
        broken.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; VACUUM")
    by_name = [corpus, "live", "atlas", str(tmp_path / "none.db"), str(tmp_path / "broken.db")]
    by_question = [str(tmp_path / "passages.db"), "http://127.0.0.1:9/retrieve"]
    for source in (*by_name, *by_question):
        card = ToolCard.of(wikipedia_search(source))
        assert (card.takes_question, card.side_effects) == (source in by_question, False), source


async def test_no_hit_is_an_empty_result(corpus: str) -> None:
    for query in ("Quux", "", '"', "\ud800"):
        result = await look_up(query, corpus)
        assert result.error is ErrorClass.EMPTY_RESULT
        assert f'"{query}"'.replace("\ud800", "?") in result.output


SENTENCES = dict(table(__file__, "sentences.txt"))


def test_the_first_sentence_is_one_line() -> None:
    assert {text: _first_sentence(Article("T", text)) for text in SENTENCES} == SENTENCES


async def test_an_installed_package_provides_a_corpus_by_name(
    tmp_path: Path, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "velmora_provider.py").write_text(f"def index_path():\n    return {corpus!r}\n")
    info = tmp_path / "velmora_provider-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: velmora-provider\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[agentflow.corpora]\nvelmora = velmora_provider:index_path\n")
    assert "there is no corpus 'velmora'" in (missing("velmora") or "")
    monkeypatch.syspath_prepend(tmp_path)
    assert missing("velmora") is None
    assert (await look_up("Tarn", "velmora")).output == "Tarn: Tarn is a country."


# The live encyclopedia, against a server on this machine.


def page(title: str, extract: str = "", index: int = 1, **more: Any) -> dict[str, Any]:
    return {"pageid": index, "ns": 0, "title": title, "index": index, "extract": extract, **more}


def reply(*pages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"batchcomplete": True, "query": {"pages": list(pages), **more}} if pages else {"batchcomplete": True}


@pytest.fixture
def live(httpserver: HTTPServer) -> MediaWiki:
    return MediaWiki(httpserver.url_for("/w/api.php"), seconds=LAST_RESORT)


async def test_live_one_request_finds_the_exact_page(httpserver: HTTPServer, live: MediaWiki) -> None:
    pages = reply(page("Turing test", "A test.", 1), page("Alan Turing", "A mathematician.\nBorn in 1912.", 2))
    httpserver.expect_request("/w/api.php").respond_with_json(pages)
    assert (await look_up("alan  turing", live)).output == "Alan Turing: A mathematician.\nBorn in 1912."
    ((request, _),) = httpserver.log
    assert f"agentflow-langgraph/{__version__}" in request.headers["User-Agent"]
    assert request.args["gsrsearch"] == "alan turing"
    assert (request.args["generator"], request.args["maxlag"], request.args["exintro"]) == ("search", "5", "1")


@pytest.mark.parametrize(("said", "query", "error", "lines"), table(__file__, "wikipedia_search.txt"))
async def test_live_replies(
    httpserver: HTTPServer, live: MediaWiki, said: Any, query: str, error: str | None, lines: list[str] | None
) -> None:
    httpserver.expect_request("/w/api.php").respond_with_json(said)
    result = await look_up(query, live)
    assert result.error == error
    assert result.output.splitlines() == lines if lines else "badvalue" in result.output
    assert len(httpserver.log) == 1


async def test_live_a_busy_server_is_asked_again(httpserver: HTTPServer, live: MediaWiki) -> None:
    busy = Response('{"error": {"code": "maxlag"}}', 200, {"Retry-After": "0"})
    httpserver.expect_ordered_request("/w/api.php").respond_with_response(busy)
    httpserver.expect_ordered_request("/w/api.php").respond_with_json(reply(page("X", "Found.")))
    assert (await look_up("X", live)).output == "X: Found."


# A retrieval server.


def hit(contents: str, score: float = 1.0) -> dict[str, Any]:
    return {"document": {"id": "1", "contents": contents}, "score": score}


async def retrieved(server: HTTPServer, query: str = "who wrote  Blade Runner") -> ToolResult:
    return await run_tool(wikipedia_search(server.url_for("/retrieve")), {"query": query}, 3600)


async def test_it_speaks_the_form_of_retrieval_servers_and_shows_passages_whole(httpserver: HTTPServer) -> None:
    found = [hit('"Blade Runner"\nA film of 1982,\nafter a novel.'), hit('"Philip K. Dick"\nA writer.', 0.5)]
    httpserver.expect_request("/retrieve", method="POST").respond_with_json({"result": [found]})
    result = await retrieved(httpserver)
    assert result.output == "Blade Runner: A film of 1982, after a novel.\nPhilip K. Dick: A writer."
    assert result.provider == httpserver.url_for("/retrieve")
    # A request that an earlier test gave up may still come in.
    (request,) = [request for request, _ in httpserver.log if request.path == "/retrieve"]
    assert request.get_json() == {"queries": ["who wrote Blade Runner"], "topk": 5, "return_scores": True}


@pytest.mark.parametrize(
    "document", [{"title": "T", "text": "t"}, {"id": 3, "contents": '"T"\nt'}, {"document": {"contents": "T\nt"}}]
)
async def test_documents_come_in_several_forms(httpserver: HTTPServer, document: dict[str, Any]) -> None:
    httpserver.expect_request("/retrieve").respond_with_json({"result": [[document] * 7]})
    assert (await retrieved(httpserver)).output.splitlines() == ["T: t"] * 5


async def test_no_passage_is_an_empty_result_and_another_reply_cannot_be_read(httpserver: HTTPServer) -> None:
    httpserver.expect_oneshot_request("/retrieve").respond_with_json({"result": [[]]})
    assert (await retrieved(httpserver)).error is ErrorClass.EMPTY_RESULT
    for said in table(__file__, "unreadable.txt"):
        httpserver.expect_oneshot_request("/retrieve").respond_with_json(said)
        result = await retrieved(httpserver)
        assert (result.error, "could not be read" in result.output) == (ErrorClass.TOOL_ERROR, True), said


def test_which_names_are_what() -> None:
    names = {"live": "MediaWiki", "http://h/r": "RetrievalServer"}
    assert {name: type(encyclopedia_of(name)).__name__ for name in names} == names
    assert type(encyclopedia_of("x.db")).__name__ == "LocalEncyclopedia"
    assert [name for name in (*names, "https://h/r", "atlas", "x.db") if is_local(name)] == ["atlas", "x.db"]
    assert not any(map(missing, (*names, "atlas")))
    assert "is no address" in (missing("http:///x") or "")
    assert "http://HOST:PORT/retrieve" in (missing("/no/such.db") or "")
