"""A graph that asks three experts at once (`Send`) and has an editor choose among their answers."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from examples.agents.tools import model


class Question(TypedDict):
    """The state: messages with the question, what the experts answered, and the answer."""

    messages: list[Any]
    opinions: Annotated[list[str], operator.add]
    answer: str


def ask_experts(state: Question) -> list[Send]:
    """Send the question to each expert."""
    return [Send("expert", {**state, "opinions": []}) for _ in range(3)]


async def expert(state: Question) -> dict[str, Any]:
    """Answer the question."""
    reply = await model.ainvoke([("system", "Answer with one number."), *state["messages"]])
    return {"opinions": [str(reply.text)]}


async def editor(state: Question) -> dict[str, Any]:
    """Choose an answer."""
    opinions = "\n".join(sorted(state["opinions"]))
    reply = await model.ainvoke([("system", "Choose the right answer."), *state["messages"], ("user", opinions)])
    return {"answer": str(reply.text)}


builder = StateGraph(Question)
builder.add_node("expert", expert)
builder.add_node("editor", editor)
builder.add_conditional_edges(START, ask_experts, ["expert"])
builder.add_edge("expert", "editor")
builder.add_edge("editor", END)
agent = builder.compile()
