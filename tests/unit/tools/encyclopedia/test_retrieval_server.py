import asyncio
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.encyclopedia.choice import encyclopedia_of, is_local, missing
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.wikipedia_search import wikipedia_search


def hit(contents: str, score: float = 1.0) -> dict[str, Any]:
    return {"document": {"id": "1", "contents": contents}, "score": score}


async def look_up(server: HTTPServer, query: str = "who wrote  Blade Runner") -> ToolResult:
    return await run_tool(wikipedia_search(server.url_for("/retrieve")), {"query": query}, 3600)


async def test_it_speaks_the_form_of_retrieval_servers_and_shows_passages_whole(httpserver: HTTPServer) -> None:
    found = [hit('"Blade Runner"\nA film of 1982,\nafter a novel.'), hit('"Philip K. Dick"\nA writer.', 0.5)]
    httpserver.expect_request("/retrieve", method="POST").respond_with_json({"result": [found]})
    result = await look_up(httpserver)
    assert result.output == "Blade Runner: A film of 1982, after a novel.\nPhilip K. Dick: A writer."
    assert result.provider == httpserver.url_for("/retrieve")
    # A request that an earlier test gave up may still come in.
    (request,) = [request for request, _ in httpserver.log if request.path == "/retrieve"]
    assert request.get_json() == {"queries": ["who wrote Blade Runner"], "topk": 3, "return_scores": True}


@pytest.mark.parametrize(
    "document", [{"title": "T", "text": "t"}, {"id": 3, "contents": '"T"\nt'}, {"document": {"contents": "T\nt"}}]
)
async def test_documents_come_in_several_forms(httpserver: HTTPServer, document: dict[str, Any]) -> None:
    httpserver.expect_request("/retrieve").respond_with_json({"result": [[document] * 5]})
    assert (await look_up(httpserver)).output.splitlines() == ["T: t"] * 3


@pytest.mark.parametrize(
    "reply",
    [{}, {"result": []}, {"result": 3}, {"result": [[1]]}, {"result": [[{"document": {}}]]}, {"result": [None]}],
)
async def test_another_reply_cannot_be_read(httpserver: HTTPServer, reply: dict[str, Any]) -> None:
    httpserver.expect_request("/retrieve").respond_with_json(reply)
    result = await look_up(httpserver)
    assert result.error is ErrorClass.TOOL_ERROR
    assert "could not be read" in result.output


async def test_no_passage_is_an_empty_result(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/retrieve").respond_with_json({"result": [[]]})
    assert (await look_up(httpserver)).error is ErrorClass.EMPTY_RESULT


async def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentflow.tools.web.json_api.PAUSE", 0.01)
    result = await run_tool(wikipedia_search("http://127.0.0.1:9/retrieve"), {"query": "x"}, 3600)
    assert result.output == ("the retrieval server at 127.0.0.1:9 could not be reached (ConnectError); is it running?")


async def test_many_at_once(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/retrieve").respond_with_json({"result": [[hit('"T"\nt')]]})
    results = await asyncio.gather(*(look_up(httpserver, f"q{n}") for n in range(100)))
    assert {result.output for result in results} == {"T: t"}


def test_which_names_are_what() -> None:
    assert [is_local(name) for name in ("live", "package", "http://h/r", "https://h/r", "atlas", "x.db")] == [
        *[False] * 4,
        *[True] * 2,
    ]
    assert [type(encyclopedia_of(name)).__name__ for name in ("live", "package", "http://h/r", "x.db")] == [
        *("MediaWiki", "WikipediaPackage", "RetrievalServer", "LocalEncyclopedia")
    ]
    assert (
        missing("http://127.0.0.1:8000/retrieve") is missing("package") is missing("live") is missing("atlas") is None
    )
    assert "is no address" in (missing("http:///x") or "")
    assert "use live, package, atlas, http://HOST:PORT/retrieve, or the path" in (missing("/no/such.db") or "")
