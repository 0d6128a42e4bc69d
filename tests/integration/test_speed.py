"""Ours and the floor of `make bench` against its server: each does the work that it is measured at."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from benchmarks.speed.drive import measure
from benchmarks.speed.measures import AGENTS
from benchmarks.speed.server import running
from benchmarks.speed.work import Work


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@pytest.mark.parametrize("calls", [5, 8])
@pytest.mark.parametrize("name", [one.name for one in AGENTS if not one.venv])
async def test_a_contender_does_its_work(server: str, name: str, calls: int) -> None:
    pytest.importorskip("aiohttp")
    module, function = name.split(":")
    rollouts = getattr(import_module(f"benchmarks.speed.contenders.{module}"), function)
    found = await measure(rollouts, Work(server, calls=calls, concurrent=2, rollouts=4, memory=9000))
    assert min(found["call"], found["rate"], found["p50"]) > 0
