import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")

from starlette.requests import Request

from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.protocol import ChatRequest
from agentflow.rl.micro.server import _Reply, _unless_gone
from agentflow.rl.micro.tokenizer import MicroTokenizer
from tests.unit.rl.micro.waiting import slow, wait_for


@pytest.fixture
def engine(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine(MicroModel.load(directory), MicroTokenizer.load(directory))
    slow(engine, monkeypatch)
    return engine


def reply(engine: Engine, directory: Path, *, stream: bool) -> _Reply:
    wanted = ChatRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": stream, "n": 2, "seed": 1}
    )
    started = _Reply(wanted, MicroTokenizer.load(directory), [5, 6, 7])
    started.start(engine)
    return started


async def test_a_stream_that_is_left_frees_its_places(engine: Engine, directory: Path) -> None:
    stream = reply(engine, directory, stream=True).stream()
    for _ in range(4):
        await anext(stream)
    assert len(engine._running) == 2
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.to_thread(wait_for, lambda: not engine._running)


async def test_a_client_that_hangs_up_frees_its_places(engine: Engine, directory: Path) -> None:
    started = reply(engine, directory, stream=False)

    async def receive() -> Any:
        await asyncio.to_thread(wait_for, lambda: len(engine._running) == 2)
        return {"type": "http.disconnect"}

    await _unless_gone(Request({"type": "http"}, receive), started)
    await asyncio.to_thread(wait_for, lambda: not engine._running)
    assert all(choice.future.cancelled() for choice in started.choices)
