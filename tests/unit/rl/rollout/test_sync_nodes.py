"""Nodes that are plain functions, each of which holds a thread while it waits for the policy."""

import asyncio
from typing import Any

import pytest

from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.rollout.rollout import RolloutStatus, run
from tests.agents import sync
from tests.graphs import TASK, trainable
from tests.waiting import LAST_RESORT


class Together:
    """A policy that answers once `number` calls wait for it, and needs a thread of the nodes' executor for it."""

    def __init__(self, number: int) -> None:
        self.left, self.all_asked = number, asyncio.Event()

    async def __call__(self, request: ChatRequest) -> TokenReply:
        self.left -= 1
        if not self.left:
            self.all_asked.set()
        await self.all_asked.wait()
        return await asyncio.to_thread(TokenReply, "2", [1], [2], [-0.5], "stop")


def app(graph: Any) -> Any:
    given: dict[str, Any] = {"inputs": lambda task: {"question": task.question}, "reward": lambda task, state: 1.0}
    return trainable(graph, **given)


@pytest.mark.parametrize(("graph", "rollouts", "calls"), [("one", 64, 1), ("fan_out", 4, 16), ("openai", 24, 1)])
async def test_nodes_that_wait_for_the_policy_leave_threads_for_others(graph: str, rollouts: int, calls: int) -> None:
    """Six of them filled asyncio's executor on two CPUs, and a training hung until its rollouts had timed out."""
    made = app(getattr(sync, graph))
    policy = Together(rollouts * calls)
    playing = (run(made, made.built(), TASK, policy, id=str(n), seconds=LAST_RESORT) for n in range(rollouts))
    ended = await asyncio.gather(*playing)
    assert {(one.status, len(one.calls)) for one in ended} == {(RolloutStatus.OK, calls)}, ended[0].trace.error


async def test_a_rollout_that_ran_out_of_time_says_which_calls_had_no_answer() -> None:
    asked, seconds = asyncio.Event(), 0.3

    async def policy(request: ChatRequest) -> TokenReply:
        asked.set()
        return await asyncio.Future()

    while not asked.is_set():  # a busy machine may take longer to reach the call
        ended = await run(app(sync.one), sync.one, TASK, policy, id="r", seconds=seconds)
        seconds *= 4
    assert ended.status == RolloutStatus.TIMED_OUT
    assert "1 of its 1 model calls" in ended.trace.error


@pytest.mark.parametrize("graph", [sync.one, sync.openai])
async def test_what_a_thread_waits_for_ends_with_its_rollout(graph: Any) -> None:
    """The engine went on sampling for rollouts that had run out of time, beside those that had not."""
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def policy(request: ChatRequest) -> TokenReply:
        asked.set()
        try:
            return await asyncio.Future()
        finally:
            cancelled.set()

    playing = asyncio.create_task(run(app(graph), graph, TASK, policy, id="r", seconds=LAST_RESORT))
    await asked.wait()
    playing.cancel()
    await cancelled.wait()
