"""Habits of older and newer code: chains without a graph, loops in loops, batches, tasks, and agents in tools."""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import MessagesState
from langgraph.prebuilt import create_react_agent
from langgraph.types import interrupt

from tests.agents.calling import look_up
from tests.agents.model import model
from tests.agents.states import chain

prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("placeholder", "{messages}")])
piped = prompt | model | StrOutputParser()
react = create_react_agent(model, [look_up])


def own_loop(state: MessagesState) -> Any:
    return {"messages": [asyncio.run(model.ainvoke(state["messages"]))]}


def batches(state: MessagesState) -> Any:
    twice = model.batch([state["messages"], state["messages"]])
    return {"messages": [*twice, *RunnableParallel(a=model, b=model).invoke(state["messages"]).values()]}


@task
async def step(messages: Any, number: int) -> Any:
    return await model.ainvoke([*messages, ("user", f"Step {number}")])


@entrypoint()
async def tasks(inputs: Any) -> Any:
    return {"messages": await asyncio.gather(*(step(inputs["messages"], number) for number in range(3)))}


@tool
def ask_expert(text: str, runtime: ToolRuntime) -> str:
    """Ask the expert."""
    found = create_agent(model, [look_up], name="expert").invoke({"messages": [("user", text)]})
    return f"{len(runtime.state['messages'])}: {found['messages'][-1].text}"


@tool
def ask_person(text: str) -> str:
    """Ask the person."""
    return str(interrupt(text))


in_a_loop, in_batches = chain(MessagesState, own_loop), chain(MessagesState, batches)
experts, asking = create_agent(model, [ask_expert]), create_agent(model, [ask_person])
