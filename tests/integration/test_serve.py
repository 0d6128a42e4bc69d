"""`agentflow serve` as its clients meet it: the openai library, LangChain, curl, and the trace collector."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE
from typing import Any

import httpx
import openai
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")

from agentflow.checks.model import examine
from agentflow.graph.context import Context, Sampling
from agentflow.rl.micro.chat_model import load
from tests.command_line import call, succeeds
from tests.processes import running
from tests.waiting import LAST_RESORT, until

QUESTION = "How many years lie between the publication of Song of Fupoz and that of Song of Gotonub?"
HELLO: Any = [{"role": "user", "content": "Hello"}]


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, list[str]]]:
    """The URL of a server on a free port, and the words of the call that it suggests."""
    with running("serve", "--port", 0, *arguments, stdout=PIPE) as server:
        url = server.stdout.readline().split(" at ")[1].split()[0]
        until(lambda: is_up(url))
        yield url, shlex.split(server.stdout.readline().removeprefix("try: agentflow "))


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[str]]]:
    with serving("embedded", "embedded:trained") as served:
        yield served


@pytest.fixture
def url(served: tuple[str, list[str]]) -> str:
    return served[0]


def is_up(url: str) -> bool:
    try:
        return httpx.get(url.removesuffix("/v1") + "/health", timeout=LAST_RESORT).is_success
    except httpx.ConnectError:
        return False


def direct(text: str) -> str:
    """Return the embedded model's reply without a server."""
    return str(load().invoke(text).text)


def test_the_openai_client(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["embedded", "embedded:trained"]
        reply = client.chat.completions.create(
            model="embedded", messages=HELLO, temperature=0, logprobs=True, n=2, max_tokens=300
        )
        first, second = reply.choices
        assert first.message.content == second.message.content == direct("Hello")
        assert first.logprobs
        assert first.logprobs.content
        assert "".join(token.token for token in first.logprobs.content) == first.message.content
        assert reply.usage
        assert reply.usage.completion_tokens == 2 * len(first.logprobs.content)


@pytest.mark.parametrize("stop", [None, [" small model", "Atlas"]])
def test_a_stream_is_the_same_reply_in_pieces(url: str, stop: list[str] | None) -> None:
    asked: Any = {"model": "embedded", "messages": HELLO, "temperature": 0, "stop": stop}
    with openai.OpenAI(base_url=url, api_key="none") as client:
        whole = client.chat.completions.create(**asked)
        options: Any = {"include_usage": True}
        pieces = list(client.chat.completions.create(**asked, stream=True, stream_options=options))
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == whole.choices[0].message.content
    assert len(pieces) > 3
    assert pieces[-1].usage == whole.usage
    assert pieces[-2].choices[0].finish_reason == "stop"


def test_sampling_repeats_with_a_seed(url: str) -> None:
    asked: Any = {"model": "embedded", "messages": [{"role": "user", "content": "Zo?"}], "temperature": 2, "n": 3}
    with openai.OpenAI(base_url=url, api_key="none") as client:
        one, two = (client.chat.completions.create(**asked, seed=5, max_tokens=20) for _ in range(2))
    replies = [choice.message.content for choice in one.choices]
    assert replies == [choice.message.content for choice in two.choices]
    assert len(set(replies)) == 3


async def test_the_ids_are_those_of_the_embedded_model(url: str) -> None:
    """The request is the one that vLLM would get, with `return_token_ids`."""
    asked: Any = {"model": "embedded", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
    with openai.OpenAI(base_url=url, api_key="none") as client:
        reply = client.chat.completions.create(**asked, logprobs=True, extra_body={"return_token_ids": True})
    served, here = reply.model_dump(), (await load("", Sampling(temperature=0.0)).ainvoke("Hello")).response_metadata
    [choice] = served["choices"]
    assert (served["prompt_token_ids"], choice["token_ids"]) == (here["prompt_token_ids"], here["token_ids"])
    assert [token["logprob"] for token in choice["logprobs"]["content"]] == pytest.approx(here["logprobs"], abs=1e-5)


def test_the_suggested_call_is_answered(served: tuple[str, list[str]]) -> None:
    assert json.loads(succeeds(*served[1], "--json").stdout)["answer"] == "9"


def test_embedded_is_the_model_that_runs_in_this_process(url: str) -> None:
    """All turns are the same; the seed alone plans otherwise."""
    solve = ["solve", QUESTION, "--json", "--corpus", "atlas", "--model"]
    here, served, seed = (
        json.loads(succeeds(*solve, spec).stdout) for spec in ("embedded", f"vllm:embedded@{url}", "embedded:seed")
    )
    plans, same, other = ([turn["plan"] for turn in found["turns"]] for found in (here, served, seed))
    assert plans == same != other


def test_a_key_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFLOW_SERVE_KEY", "sesame")
    with serving() as (url, _):
        assert httpx.get(f"{url}/models").status_code == 401
        assert httpx.get(f"{url}/models", headers={"Authorization": "Bearer sesame"}).status_code == 200
        assert httpx.post(f"{url}/chat/completions", json={}).status_code == 401


def test_a_port_that_is_taken(url: str) -> None:
    port = url.removesuffix("/v1").rpartition(":")[2]
    done = call("serve", "--port", port)
    assert (done.exit_code, "choose another --port" in done.stderr) == (2, True)


def test_doctor_tries_the_served_model(url: str) -> None:
    """Our server states its context, returns ids, and the log-probabilities of the sampling distribution."""
    spec = f"openai-compatible:embedded@{url}"
    found = {name: works for name, works, _ in asyncio.run(examine(spec, Context(model=spec)))}
    assert found.pop("context length") == "-"  # 4,096 tokens hold short results
    assert set(found.values()) == {"ok"}
    assert {"planner", "executor", "verifier", "log-probabilities", "token ids"} <= found.keys()
