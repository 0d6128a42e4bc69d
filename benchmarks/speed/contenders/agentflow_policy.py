"""Ours: a StateGraph of model and tool with a `Policy`; every call is captured as ids and log-probabilities."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph

from agentflow.graph.tracing.observer import Observer
from agentflow.rl.calls import Call, TokenCollector
from agentflow.rl.policy import Policy, serving
from benchmarks.speed.contenders.served import served
from benchmarks.speed.work import ANSWER, QUESTION, Rollout, Work

DISTRIBUTION = "agentflow-langgraph"
LIMIT = 1000
"""Recursion limit of the graph."""


class Talk(TypedDict):
    """State of the graph."""

    messages: Annotated[list[AnyMessage], add]


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts whose policy is served over aiohttp."""
    async with served(work.url("text")) as generate:
        graph = plain_graph(Policy(), work)

        async def rollout() -> str:
            with serving(generate):
                answer, _ = await captured(graph, work)
            return answer

        yield rollout


def plain_graph(model: Any, work: Work) -> Any:
    """Build a graph that alternates model and tool until the model answers."""

    async def policy(state: Talk) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def tool(state: Talk) -> dict[str, Any]:
        return {"messages": [HumanMessage(work.result)]}

    def after_policy(state: Talk) -> Literal["tool", "__end__"]:
        return "__end__" if ANSWER in state["messages"][-1].text else "tool"

    builder = StateGraph(Talk)
    builder.add_node("policy", policy)
    builder.add_node("tool", tool)
    builder.add_edge(START, "policy")
    builder.add_conditional_edges("policy", after_policy)
    builder.add_edge("tool", "policy")
    return builder.compile()


async def captured(graph: Any, work: Work) -> tuple[str, list[Call]]:
    """Return the answer and the calls of a rollout."""
    collector = TokenCollector("rollout", {"policy"})
    config = {"callbacks": [Observer(collector, raise_error=True)], "recursion_limit": LIMIT}
    state = await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, config)
    assert len(collector.calls) == work.calls
    return str(state["messages"][-1].text), collector.calls
