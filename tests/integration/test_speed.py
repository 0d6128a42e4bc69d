"""Ours and the floors of `make bench` against its server: each does the work that it is measured at."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from benchmarks.speed import batches
from benchmarks.speed.drive import measure
from benchmarks.speed.server import running
from benchmarks.speed.traces import tokens, trajectories
from benchmarks.speed.work import Work


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@pytest.mark.parametrize("calls", [5, 8])
@pytest.mark.parametrize(
    "name",
    [
        "agentflow_agent",
        "agentflow_endpoint",
        "agentflow_kept",
        "agentflow_policy",
        "agentflow_tools",
        "agentflow_traced",
        "aiohttp_loop",
        "state_graph",
    ],
)
async def test_a_contender_does_its_work(server: str, name: str, calls: int) -> None:
    pytest.importorskip("aiohttp")
    module = import_module(f"benchmarks.speed.contenders.{name}")
    found = await measure(module, Work(server, calls=calls, concurrent=2, rollouts=4, tools=3, memory=9000), False)
    assert found["cpu"] > 0
    assert found["rate"] > 0
    assert found["p50"] > 0


@pytest.mark.filterwarnings("ignore")  # of verl's imports
@pytest.mark.parametrize("append_only", [True, False])
def test_batches_hold_the_same_tokens(append_only: bool) -> None:
    """`FlowAgentLoop` is made without its trainer there, and lacked an attribute that had become part of it."""
    pytest.importorskip("verl")
    traces = trajectories(append_only, rollouts=3)
    ours, floor = batches.ours(traces)(), batches.floor(traces)()
    assert ours.forward == floor.forward
    assert (ours.forward == tokens(traces)) is not append_only
