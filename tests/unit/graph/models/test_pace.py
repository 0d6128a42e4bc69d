"""The gate of a server that refuses requests: all wait for it together, and not for ever."""

import asyncio
import time

import pytest

from agentflow.graph.models import pace as module
from agentflow.graph.models.pace import FIRST, LONGEST, TRIES, Pace


class Time:
    """A clock that a wait sets forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "sleep", self.sleep)
        monkeypatch.setattr(module, "uniform", lambda least, most: least)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_one_refusal_holds_back_all_requests_to_that_server_and_to_no_other() -> None:
    pace, start = Pace(), time.monotonic()
    assert pace.refused("slow:80", start, 0.3)
    assert pace.refused("slow:80", start, 0.0), "an earlier, longer wait stands"
    with pytest.raises(StopIteration):
        pace.keep("other:80").send(None)  # it returns without waiting
    await asyncio.gather(*(pace.keep("slow:80") for _ in range(3)))
    assert time.monotonic() - start >= 0.3
    assert pace.waited == pytest.approx(0.3, abs=0.1)
    assert not pace.refused("slow:80", time.monotonic(), LONGEST + 1), "a server that asks for too much"


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        (None, [FIRST, 2, 4, 8, 16, 32, 64]),
        (5.0, [5, 5, 5, 5, 8, 16, 32]),  # what the server asks for was too short
    ],
)
async def test_a_server_that_refuses_everything_is_given_up(
    asked: float | None, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, pace, found = Time(monkeypatch), Pace(), list[float]()
    sent = clock.now
    while pace.refused("slow:80", sent, asked):
        before = clock.now
        sent = await pace.keep("slow:80")
        found.append(clock.now - before)
    assert found == waits
    assert len(waits) == TRIES - 1
    assert pace.waited == sum(waits)
    clock.now += LONGEST + 1
    assert pace.refused("slow:80", clock.now, None), "what it refused long ago does not count"


async def test_requests_that_were_sent_together_are_refused_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pace = Time(monkeypatch), Pace()
    for _ in range(4 * TRIES):
        assert pace.refused("slow:80", clock.now - 0.1, None)
    assert await pace.keep("slow:80") == 1000.0 + FIRST


async def test_a_server_that_accepts_some_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _, pace = Time(monkeypatch), Pace()
    for _ in range(2 * TRIES):
        assert pace.refused("slow:80", await pace.keep("slow:80"), None)
        pace.accepted("slow:80")
    assert pace.waited == 2 * TRIES * FIRST
