"""Ours: AgentFlow's graph with its memory, all modules behind an OpenAI-compatible endpoint, as in `eval`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentflow.graph.context import MODULES, Context
from benchmarks.speed.contenders.agentflow_agent import agent
from benchmarks.speed.work import Rollout, Work

DISTRIBUTION = "agentflow-langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts without capture."""
    specs = {module: f"vllm:{module}@{work.url('text')}" for module in MODULES}
    yield agent(work, Context(models=specs), captured=())
