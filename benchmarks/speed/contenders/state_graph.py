"""The floor of LangGraph: a StateGraph of model and tool whose node uses aiohttp, without LangChain's models."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import aiohttp
from langgraph.graph import START, StateGraph

from benchmarks.speed.work import QUESTION, TOOL, Rollout, Work

DISTRIBUTION = "langgraph"


class Talk(TypedDict):
    """Messages in the server's format."""

    messages: Annotated[list[dict[str, Any]], add]


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts of the graph."""
    url = f"{work.url('tools')}/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def model(state: Talk) -> dict[str, Any]:
            async with session.post(url, json={"model": "none", "messages": state["messages"], "tools": [TOOL]}) as got:
                return {"messages": [json.loads(await got.read())["choices"][0]["message"]]}

        async def tool(state: Talk) -> dict[str, Any]:
            calls = state["messages"][-1]["tool_calls"]
            return {"messages": [{"role": "tool", "tool_call_id": c["id"], "content": work.result} for c in calls]}

        def after_model(state: Talk) -> Literal["tool", "__end__"]:
            return "tool" if state["messages"][-1].get("tool_calls") else "__end__"

        builder = StateGraph(Talk)
        builder.add_node("model", model)
        builder.add_node("tool", tool)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", after_model)
        builder.add_edge("tool", "model")
        graph = builder.compile()

        async def rollout() -> str:
            state = await graph.ainvoke({"messages": [{"role": "user", "content": QUESTION}]})
            return str(state["messages"][-1]["content"])

        yield rollout
