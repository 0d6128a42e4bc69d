"""Ours, with the traces of all rollouts kept, as until their batch is trained on, to measure memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentflow.rl.calls import Call
from agentflow.rl.policy import Policy, serving
from benchmarks.speed.contenders.agentflow_policy import captured, plain_graph
from benchmarks.speed.contenders.served import served
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "agentflow-langgraph"

_kept: list[list[Call]] = []


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts whose calls are kept."""
    async with served(work.url("text")) as generate:
        graph = plain_graph(Policy(), work)

        async def rollout() -> str:
            with serving(generate):
                answer, calls = await captured(graph, work)
            _kept.append(calls)
            return answer

        yield rollout
