"""Ours: the same graph with a model behind an OpenAI-compatible endpoint, `traced_model`, whose ids are captured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentflow.graph.context import Sampling
from agentflow.rl.traced import traced_model
from benchmarks.speed.contenders.agentflow_policy import captured, plain_graph
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "agentflow-langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Rollouts over the openai SDK, as `solve` and `eval` call endpoints."""
    graph = plain_graph(traced_model(f"vllm:none@{work.url('text')}", Sampling()), work)

    async def rollout() -> str:
        answer, _ = await captured(graph, work)
        return answer

    yield rollout
