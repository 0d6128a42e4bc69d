"""Nodes that are plain functions: one, many branches at once (`Send`), and one with the blocking openai client."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Send
from openai import OpenAI

from tests.agents.model import URL, model

BRANCHES = 16
client = OpenAI(base_url=URL, api_key="none", max_retries=0)


class State(TypedDict):
    question: str
    answers: Annotated[list[str], operator.add]


def ask(state: State) -> Any:
    return {"answers": [str(model.invoke(state["question"]).text)]}


def ask_openai(state: State) -> Any:
    asked: Any = [{"role": "user", "content": state["question"]}]
    reply = client.chat.completions.create(model="m", messages=asked)
    return {"answers": [reply.choices[0].message.content]}


def graph(node: Any, branches: int = 1) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", node)
    builder.add_conditional_edges(START, lambda state: [Send("ask", state)] * branches, ["ask"])
    return builder.compile()


one, fan_out, openai = graph(ask), graph(ask, BRANCHES), graph(ask_openai)
