"""LangGraph's own agent, `create_react_agent`, with `ChatOpenAI`."""

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from benchmarks.speed.work import QUESTION, Rollout, Work

DISTRIBUTION = "langgraph"


@asynccontextmanager
async def rollouts(work: Work) -> AsyncIterator[Rollout]:
    """Yield rollouts of one agent."""

    async def look_up(text: str) -> str:
        """Looks something up."""
        return work.result

    tool = StructuredTool.from_function(coroutine=look_up)
    model = ChatOpenAI(model="none", base_url=work.url("tools"), api_key="none")
    with warnings.catch_warnings(action="ignore"):  # its successor is in the package langchain
        agent = create_react_agent(model, [tool])

    async def rollout() -> str:
        state = await agent.ainvoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 1000})
        return str(state["messages"][-1].content)

    yield rollout
