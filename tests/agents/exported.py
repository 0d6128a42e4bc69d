"""One small graph in the forms that people export."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph

from tests.agents.model import model


async def answer(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
piped = builder.compile() | (lambda state: {**state, "piped": True})


class Dated(MessagesState):
    day: str


async def answer_of_the_day(state: Dated) -> Any:
    return {"messages": [("ai", state["day"] + state["hour"])]}  # type: ignore[typeddict-item]  # it has none


async def answer_without(state: MessagesState) -> Any:
    raise KeyError(["day"])


unhashable = StateGraph(MessagesState).add_sequence([answer_without]).set_entry_point("answer_without").compile()
dated = StateGraph(Dated).add_sequence([answer_of_the_day]).set_entry_point("answer_of_the_day").compile()


@entrypoint()
async def entered(inputs: Any) -> Any:
    return {"messages": [await model.ainvoke(inputs["messages"])]}


async def made_later() -> Any:
    return builder.compile()


@asynccontextmanager
async def with_session(config: RunnableConfig) -> AsyncIterator[Any]:
    yield builder.compile(name=config.get("configurable", {}).get("name"))


def made_with(config: RunnableConfig) -> Any:
    return builder


async def play(graph: Any, task: Any) -> Any:
    return await graph.ainvoke({"messages": [("user", "first")]}) and await graph.ainvoke({"messages": task.question})
