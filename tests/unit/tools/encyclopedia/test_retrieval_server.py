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


REPLIES = [{}, {"result": []}, {"result": 3}, {"result": [[1]]}, {"result": [[{"document": {}}]]}, {"result": [None]}]


async def test_no_passage_is_an_empty_result_and_another_reply_cannot_be_read(httpserver: HTTPServer) -> None:
    httpserver.expect_oneshot_request("/retrieve").respond_with_json({"result": [[]]})
    assert (await look_up(httpserver)).error is ErrorClass.EMPTY_RESULT
    for reply in REPLIES:
        httpserver.expect_oneshot_request("/retrieve").respond_with_json(reply)
        result = await look_up(httpserver)
        assert (result.error, "could not be read" in result.output) == (ErrorClass.TOOL_ERROR, True), reply


def test_which_names_are_what() -> None:
    names = {"live": "MediaWiki", "package": "WikipediaPackage", "http://h/r": "RetrievalServer"}
    assert {name: type(encyclopedia_of(name)).__name__ for name in names} == names
    assert type(encyclopedia_of("x.db")).__name__ == "LocalEncyclopedia"
    assert [name for name in (*names, "https://h/r", "atlas", "x.db") if is_local(name)] == ["atlas", "x.db"]
    assert not any(map(missing, (*names, "atlas")))
    assert "is no address" in (missing("http:///x") or "")
    assert "http://HOST:PORT/retrieve" in (missing("/no/such.db") or "")
