"""Chat models of other providers: their own clients against loopback servers that speak their protocols."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from pydantic import SecretStr
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agentflow import build_graph
from agentflow.graph.context import Context, Model, Sampling
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.toolbox import Toolbox
from tests.failing import fails
from tests.scripted import DEFAULTS, echo, module_of

ASKED = Sampling(temperature=0.5, top_p=0.9, max_tokens=77, stop=("END",))


def anthropic(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 3},
    }


def gemini(text: str) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3, "totalTokenCount": 14},
        "modelVersion": "gemini-test",
    }


@pytest.fixture
def served(httpserver: HTTPServer) -> Callable[[Callable[[str], dict[str, Any]]], list[dict[str, Any]]]:
    """Answer every request as the module asks that sent it, in the protocol that is given; return the bodies."""

    def serve(reply: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
        bodies: list[dict[str, Any]] = []

        def handle(request: Request) -> Response:
            bodies.append(request.get_json())
            return Response(json.dumps(reply(answer_of(bodies[-1]))), content_type="application/json")

        httpserver.expect_request(re.compile(".*"), method="POST").respond_with_handler(handle)
        return bodies

    return serve


def answer_of(body: dict[str, Any]) -> str:
    """Return the scripted reply of the module whose prompt is in the body."""
    asking = [module for text in strings(body) if (module := module_of(text)) != "tools"]
    return str(DEFAULTS[asking[0]]) if asking else "4"


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


async def solved(model: Model) -> Any:
    context = Context(model=model, sampling={"planner": ASKED})
    return await run(build_graph([echo]), Task(id="1", question="Say hello.", gold="hello"), context)


async def test_a_chat_model_of_anthropic_runs_all_modules(httpserver: HTTPServer, served: Any) -> None:
    bodies = served(anthropic)
    trace = await solved(
        ChatAnthropic(model_name="claude-test", base_url=httpserver.url_for(""), api_key=SecretStr("k"))
    )
    assert (trace.error, trace.answer) == ("", "hello")
    assert trace.usage.models["claude-test"].input_tokens == 11 * len(bodies)
    planned = next(body for body in bodies if body["max_tokens"] == ASKED.max_tokens)
    assert (planned["temperature"], planned["top_p"], planned["stop_sequences"]) == (0.5, 0.9, ["END"])


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")  # google-genai's own
async def test_a_spec_of_google_runs_all_modules(
    httpserver: HTTPServer, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    bodies = served(gemini)
    trace = await solved(f"google_genai:gemini-test@{httpserver.url_for('').rstrip('/')}")
    assert (trace.error, trace.answer) == ("", "hello")
    assert trace.usage.models["gemini-test"].output_tokens == 3 * len(bodies)
    settings = [body["generationConfig"] for body in bodies]
    planned = next(one for one in settings if one["maxOutputTokens"] == ASKED.max_tokens)
    assert (planned["temperature"], planned["topP"], planned["stopSequences"]) == (0.5, 0.9, ["END"])
    assert any(one["temperature"] == 0 for one in settings)


async def test_the_tools_ask_a_chat_model_too(httpserver: HTTPServer, served: Any) -> None:
    served(anthropic)
    model = ChatAnthropic(model_name="claude-test", base_url=httpserver.url_for(""), api_key=SecretStr("k"))
    tools = await Toolbox().available_tools(Context(models={"tools": model}, tools=["base_generator"]))
    assert "4" in str(await tools.tools["base_generator"].ainvoke({"query": "What is 2 + 2?"}))


@pytest.mark.parametrize(
    ("spec", "code", "named"),
    [
        ("cohere:command", "not_installed", "langchain-cohere"),
        ("google_genai:m", "not_loaded", "google_genai:m"),
        ("anthropic:m", "no_key", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_package_or_a_key_that_is_missing_is_named(
    spec: str, code: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with fails(ModelError, code, named, configuration=True):
        load_model(spec)
