"""Ours: a StateGraph of model and tool with a `Policy` that tools are bound to; every call is captured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, StateGraph

from agentflow.rl.policy import Policy, serving
from benchmarks.speed.contenders.agentflow_policy import Talk, captured
from benchmarks.speed.contenders.served import served
from benchmarks.speed.work import Rollout, Work, tool_schemas

DISTRIBUTION = "agentflow-langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts whose policy is served over aiohttp."""
    async with served(work.url("tools")) as generate:
        graph = tool_graph(work)

        async def rollout() -> str:
            with serving(generate):
                answer, _ = await captured(graph, work)
            return answer

        yield rollout


def tool_graph(work: Work) -> Any:
    """Build a graph that alternates model and tool calls until the model calls none."""
    model = Policy().bind_tools(tool_schemas(work))

    async def policy(state: Talk) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def tool(state: Talk) -> dict[str, Any]:
        [*_, asked] = state["messages"]
        calls = asked.tool_calls if isinstance(asked, AIMessage) else []
        return {"messages": [ToolMessage(work.result, tool_call_id=str(call["id"])) for call in calls]}

    def after_policy(state: Talk) -> Literal["tool", "__end__"]:
        [*_, said] = state["messages"]
        return "tool" if isinstance(said, AIMessage) and said.tool_calls else "__end__"

    builder = StateGraph(Talk)
    builder.add_node("policy", policy)
    builder.add_node("tool", tool)
    builder.add_edge(START, "policy")
    builder.add_conditional_edges("policy", after_policy)
    builder.add_edge("tool", "policy")
    return builder.compile()
