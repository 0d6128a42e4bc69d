"""Ours: the same graph with `rl.traced`, a model behind an OpenAI-compatible endpoint whose ids are captured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentflow.graph.context import Sampling
from agentflow.rl import traced
from benchmarks.speed.contenders.agentflow_policy import captured, plain_graph
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "agentflow-langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts whose model is called as in `solve` and `eval`."""
    graph = plain_graph(traced.load(f"vllm:none@{work.url('text')}", Sampling()), work)

    async def rollout() -> str:
        answer, _ = await captured(graph, work)
        return answer

    yield rollout
