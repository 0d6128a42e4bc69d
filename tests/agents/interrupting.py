"""Graphs that wait for a person: in a node, in two nodes at once, and before a node."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from tests.agents.model import model


class State(TypedDict):
    question: str
    said: Annotated[list[str], operator.add]


def ask(state: State) -> Any:
    return {"said": [interrupt("Which one?")]}


def ask_too(state: State) -> Any:
    return {"said": [interrupt("How many?")]}


async def answer(state: State) -> Any:
    return {"said": [str((await model.ainvoke(" ".join([state["question"], *state["said"]]))).text)]}


def graph(*asking: Any, **options: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node(answer)
    for node in asking:
        builder.add_node(node)
        builder.add_edge(START, node.__name__)
    builder.add_edge([node.__name__ for node in asking] or START, "answer")
    return builder.compile(**options)


one, two, before = graph(ask), graph(ask, ask_too), graph(interrupt_before=["answer"])


def reply(task: Any, asked: str) -> str:
    return f"{asked} That."
