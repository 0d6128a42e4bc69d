"""Ours: AgentFlow's graph with its memory; all modules use the policy, and every call is captured.

A rollout of one turn makes five model calls: analyst, planner, executor, verifier, generator. Each further turn makes
three more.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool

from agentflow.graph.agent import build_graph
from agentflow.graph.context import MODULES, Context
from agentflow.graph.state import InputState
from agentflow.graph.tracing.observer import Observer
from agentflow.rl.calls import TokenCollector
from agentflow.rl.policy import serving
from benchmarks.speed.contenders.served import served
from benchmarks.speed.work import QUESTION, Rollout, Work

DISTRIBUTION = "agentflow-langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts whose policy is served over aiohttp."""
    async with served(work.url("text")) as generate:
        run = agent(work, Context(model="policy"), captured=MODULES)

        async def rollout() -> str:
            with serving(generate):
                return await run()

        yield rollout


def agent(work: Work, context: Context, captured: Collection[str]) -> Rollout:
    """Yield rollouts of the graph with the models of `context`, which capture the calls of the nodes `captured`."""
    turns = max(1, (work.calls - 2) // 3)
    result = work.result_of(turns)

    async def look_up(text: str) -> str:
        """Looks something up."""
        return result

    graph = build_graph([StructuredTool.from_function(coroutine=look_up, name=name) for name in work.names])
    settings = {"tools": work.names, "max_turns": turns, "memory_tokens": 1_000_000}
    context = context.model_copy(update=settings)

    async def rollout() -> str:
        collector = TokenCollector("rollout", captured or ["no node"])
        question = InputState(messages=[HumanMessage(QUESTION)])
        state = await graph.ainvoke(question, {"callbacks": [Observer(collector, raise_error=True)]}, context=context)
        assert [turn.action.result.error for turn in state["memory"]] == [None] * turns
        assert len(collector.calls) == (3 * turns + 2 if captured else 0)
        return str(state["answer"])

    return rollout
