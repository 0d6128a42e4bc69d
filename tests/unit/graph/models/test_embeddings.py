import asyncio

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agentflow.graph.context import Context
from agentflow.graph.models.embeddings import load_embeddings
from agentflow.graph.models.spec import ModelError
from agentflow.graph.toolbox import Toolbox
from agentflow.tools.run import run_tool
from agentflow.tools.web.safe_http import Document, FetchPolicy


def vectors(request: Request) -> Response:
    """OpenAI's embeddings: a text's vector tells whether it speaks of whales."""
    import json

    texts = request.get_json()["input"]
    data = [
        {"object": "embedding", "index": number, "embedding": [float("whale" in text.lower()), 1.0]}
        for number, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Response(
        json.dumps({"object": "list", "model": "m", "data": data, "usage": usage}), mimetype="application/json"
    )


@pytest.fixture
def spec(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> str:

    monkeypatch.setenv("VLLM_API_KEY", "key-0123456789")
    httpserver.expect_request("/v1/embeddings", method="POST").respond_with_handler(vectors)
    return f"vllm:small@{httpserver.url_for('/v1')}"


def test_texts_go_over_the_wire_as_texts_from_any_event_loop(httpserver: HTTPServer, spec: str) -> None:
    for _ in range(2):  # the client is kept, and its connections belong to a loop
        assert asyncio.run(load_embeddings(spec).aembed_query("a whale")) == [1.0, 1.0]
    request, _ = httpserver.log[0]
    body = request.get_json()
    assert (body["input"], body["model"]) == (["a whale"], "small")
    assert request.headers["Authorization"] == "Bearer key-0123456789"


@pytest.mark.parametrize("spec", ["embedded", "vllm", "nobody:x", "openai:text-embedding-3-small", ""])
def test_what_names_no_embeddings_says_what_to_write(spec: str) -> None:
    with pytest.raises(ModelError) as raised:
        load_embeddings(spec)
    assert raised.value.configuration


async def test_a_run_ranks_its_pages_by_the_embeddings_that_it_sets(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def page(url: str, policy: FetchPolicy) -> Document:
        chunks = [f"{'A whale is a mammal. ' if n == 7 else ''}{f'filler{n} ' * 110}" for n in range(9)]
        return Document(url, "text/plain", "\n\n".join(chunks).encode())

    monkeypatch.setattr("agentflow.tools.web_search.fetch", page)
    context = Context(tools=["web_search"], web_pages="passages", embeddings=spec)
    tool = (await Toolbox().available_tools(context)).tools["web_search"]
    result = await run_tool(tool, {"query": "WHALES?", "url": "https://a.example/"}, 3600)
    assert "A whale is a mammal." in result.output
    assert result.output.endswith("Source: https://a.example/")
