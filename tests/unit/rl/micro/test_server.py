import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

pytest.importorskip("starlette", reason="the extra serve is not installed")

from starlette.requests import Request

from agentflow.rl.micro import server
from agentflow.rl.micro.chat_model import Checkpoint
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.http import unless_gone
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.protocol import ChatCompletionRequest
from agentflow.rl.micro.server import MOST_BYTES, _Reply, build_app, settled
from agentflow.rl.micro.tokenizer import MicroTokenizer
from tests.cases import table
from tests.waiting import until


@pytest.fixture
def engine(directory: Path, slow: Callable[[Engine], None]) -> Engine:
    engine = Engine(MicroModel.load(directory), MicroTokenizer.load(directory))
    slow(engine)
    return engine


def reply(engine: Engine, directory: Path, *, stream: bool) -> _Reply:
    wanted = ChatCompletionRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream, "n": 2, "seed": 1}
    )
    started = _Reply(wanted, MicroTokenizer.load(directory), [5, 6, 7])
    started.start(engine)
    return started


async def test_a_stream_that_is_left_frees_its_places(
    engine: Engine, directory: Path, slow: Callable[[Engine], None]
) -> None:
    slow(engine)
    stream = reply(engine, directory, stream=True).stream()
    for _ in range(4):
        await anext(stream)
    await asyncio.to_thread(until, lambda: len(engine._running) == 2)
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.to_thread(until, lambda: not engine._running)


async def test_a_client_that_hangs_up_frees_its_places(
    engine: Engine, directory: Path, slow: Callable[[Engine], None]
) -> None:
    slow(engine)
    started = reply(engine, directory, stream=False)

    async def receive() -> Any:
        await asyncio.to_thread(until, lambda: len(engine._running) == 2)
        return {"type": "http.disconnect"}

    await unless_gone(Request({"type": "http"}, receive), started.whole())
    await asyncio.to_thread(until, lambda: not engine._running)
    assert all(choice.future.cancelled() for choice in started.choices)


class Watched(MicroTokenizer):
    """Keeps which threads make ids."""

    def encode_chat(self, *arguments: Any, **more: Any) -> list[int]:
        self.threads = [*getattr(self, "threads", []), threading.current_thread()]
        return super().encode_chat(*arguments, **more)


@pytest.fixture
def served(directory: Path) -> Checkpoint:
    tokenizer = Watched.load(directory)
    return Checkpoint(Engine(MicroModel.load(directory), tokenizer), tokenizer, "")


async def ask(served: Checkpoint, body: Any, key: str = "", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(build_app({"m": served}, key))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        sent = {"content": body} if isinstance(body, bytes) or hasattr(body, "__aiter__") else {"json": body}
        return await client.post("/v1/chat/completions", headers=headers, **sent)


def saying(*texts: str) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": text} for text in texts]}


async def test_only_this_machine_is_answered_where_there_is_no_key(served: Checkpoint) -> None:
    assert (await ask(served, saying("x"), Origin="http://localhost:3000")).status_code == 200
    assert (await ask(served, saying("x"), Host="evil.example")).status_code == 403
    assert (await ask(served, saying("x"), Origin="https://evil.example")).status_code == 403
    behind_a_proxy = {"Host": "models.example", "Authorization": "Bearer sesame"}
    assert (await ask(served, saying("x"), "sesame", **behind_a_proxy)).status_code == 200
    assert (await ask(served, saying("x"), "sesame", Host="models.example")).status_code == 401


async def test_a_body_is_read_up_to_a_bound(served: Checkpoint) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1 << 16
            yield b" " * (1 << 16)

    assert (await ask(served, endless())).status_code == 413
    assert read <= MOST_BYTES + (1 << 17)
    assert (await ask(served, b" " * MOST_BYTES)).status_code == 400


async def test_ids_are_made_beside_the_event_loop(served: Checkpoint) -> None:
    assert (await ask(served, saying("x"))).status_code == 200
    assert isinstance(served.tokenizer, Watched)
    assert threading.current_thread() not in served.tokenizer.threads


@pytest.mark.parametrize("texts", [["x" * 500_000], [""] * 10_000, ["x" * 50] * 10_000], ids=["long", "many", "both"])
async def test_what_cannot_fit_is_not_tokenised(texts: list[str], served: Checkpoint) -> None:
    refused = await ask(served, saying(*texts))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert not hasattr(served.tokenizer, "threads")
    refused = await ask(served, {**saying("x"), "model": "x" * 500_000})
    assert (refused.status_code, len(refused.content) < 1000) == (404, True)


async def test_more_than_can_wait_is_refused_for_the_time_being(
    served: Checkpoint, slow: Callable[[Engine], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_OPEN", 3)
    assert isinstance(served.engine, Engine)
    slow(served.engine)
    transport = httpx.ASGITransport(build_app({"m": served}))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        ask = partial(client.post, "/v1/chat/completions")
        first = asyncio.create_task(ask(json={**saying("x"), "max_tokens": 6, "n": 2}))
        await asyncio.to_thread(until, lambda: len(served.engine._running) == 2)  # type: ignore[union-attr]
        refused = await ask(json={**saying("x"), "n": 2})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await ask(json=saying("x"))).status_code == 200
        assert (await first).status_code == 200
        assert (await ask(json={**saying("x"), "n": 2})).status_code == 200


# ---------------------------------------------------------------- requests, and what is sent of a reply

HELLO = [{"role": "user", "content": "Hello"}]


def request(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate_json(json.dumps({"model": "m", "messages": HELLO, **fields}))


def test_what_a_client_sends_by_habit_is_accepted() -> None:
    asked = request(
        user="me", tools=[], top_logprobs=0, presence_penalty=0.0, response_format={"type": "text"}, temperature=None
    )
    assert asked.temperature == 1.0


@pytest.mark.parametrize("fields", table(__file__, "refused.txt"), ids=str)
def test_what_cannot_be_done_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(**fields)


def test_content_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "He"}, {"type": "text", "text": "llo"}]
    (message,) = request(messages=[{"role": "developer", "content": parts}]).messages
    assert message.as_pair() == ("system", "Hello")


@given(text=st.text("ab\ufffd.", max_size=12), stops=st.lists(st.text("ab.", min_size=1, max_size=3), max_size=3))
def test_what_was_sent_stays_as_the_text_grows(text: str, stops: list[str]) -> None:
    """Whatever comes later, up to the stop string that ends it, what is settled is the beginning of the reply."""
    whole = text[: min((cut for cut in map(text.find, stops) if cut >= 0), default=len(text))]
    for length in range(len(text) + 1):
        seen = text[:length]
        assert whole.startswith(settled(seen, stops))
        if any(stop in seen for stop in stops):
            break
