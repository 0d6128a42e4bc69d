"""Structured output as the action: the model fills in a form, and code carries it out."""

import operator
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from examples.agents.tools import model

OPERATORS = {"plus": operator.add, "times": operator.mul}


class Sum(BaseModel):
    """A sum with two numbers."""

    a: int
    b: int
    operator: Literal["plus", "times"]


class Work(TypedDict):
    """The state: messages with the question, and the answer."""

    messages: list[Any]
    answer: str


async def work_out(state: Work) -> dict[str, str]:
    """Have the sum filled in, and compute it."""
    form = await model.with_structured_output(Sum, method="function_calling").ainvoke(state["messages"])
    if not isinstance(form, Sum):
        return {"answer": "no sum"}
    return {"answer": str(OPERATORS[form.operator](form.a, form.b))}


builder = StateGraph(Work)
builder.add_node("work_out", work_out)
builder.add_edge(START, "work_out")
builder.add_edge("work_out", END)
agent = builder.compile()
