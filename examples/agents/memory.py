"""A chat that summarises what was said before it goes on, so that its history is rewritten."""

from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from examples.agents.tools import model


async def think(state: MessagesState) -> dict:
    """Work out a first part."""
    return {"messages": [await model.ainvoke(state["messages"])]}


async def summarise(state: MessagesState) -> dict:
    """Replace all messages by a summary."""
    summary = await model.ainvoke([*state["messages"], HumanMessage("Summarise this in one sentence.")])
    removed = [RemoveMessage(id=str(message.id)) for message in state["messages"]]
    return {"messages": [*removed, HumanMessage(f"So far: {summary.text}\nNow give the result.")]}


async def answer(state: MessagesState) -> dict:
    """Give the result."""
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
for step in (think, summarise, answer):
    builder.add_node(step.__name__, step)
builder.add_edge(START, "think")
builder.add_edge("think", "summarise")
builder.add_edge("summarise", "answer")
builder.add_edge("answer", END)
agent = builder.compile()
