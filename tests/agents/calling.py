"""Agents that call tools: ready-made ones, and graphs that people write by hand."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from tests.agents.model import model


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word."


@tool
async def count(text: str, least: int | None = None) -> str:
    """Count the letters of a text."""
    return str(len(text))


@tool
def transfer(note: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand the work to the writer."""
    return Command(goto="writer", update={"messages": [ToolMessage(note, tool_call_id=tool_call_id)]})


sync_tools = create_agent(model, [look_up], system_prompt="Use the tool.")
async_tools = create_agent(model, [count], system_prompt="Use the tool.")
both = model.bind_tools([look_up, count])


def assistant(state: MessagesState) -> Any:
    return {"messages": [both.invoke(state["messages"])]}


async def single(state: MessagesState) -> Any:
    alone = model.bind_tools([look_up, count], parallel_tool_calls=False)
    return {"messages": [await alone.ainvoke(state["messages"])]}


async def forced(state: MessagesState) -> Any:
    """Index the calls, as hand-written graphs do: a reply without one is an error."""
    reply = await model.bind_tools([look_up], tool_choice="any").ainvoke(state["messages"])
    return {"messages": [HumanMessage(look_up.invoke(reply.tool_calls[0]["args"]))]}


async def passed(state: MessagesState) -> Any:
    """Call a function with the arguments of the calls, as hand-written graphs do: it refuses unknown ones."""
    reply = await model.bind_tools([look_up]).ainvoke(state["messages"])
    function: Any = look_up.func
    return {"messages": [HumanMessage(function(**call["args"])) for call in reply.tool_calls]}


async def changing(state: MessagesState) -> Any:
    """Offer one tool at a time, as agents that search for their tools do."""
    done = sum(isinstance(message, ToolMessage) for message in state["messages"])
    return {"messages": [await model.bind_tools([look_up, count][done : done + 1] or []).ainvoke(state["messages"])]}


async def writer(state: MessagesState) -> Any:
    return {"messages": [await model.ainvoke(state["messages"])]}


async def summarise(state: MessagesState) -> Any:
    summary = await model.ainvoke([*state["messages"], HumanMessage("Summarise this.")])
    removed: list[AnyMessage] = [RemoveMessage(id=str(message.id)) for message in state["messages"]]
    return {"messages": [*removed, HumanMessage(f"So far: {summary.text}")]}


def looped(node: Any, *tools: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("assistant", node)
    builder.add_node("tools", ToolNode(list(tools)))
    builder.add_node("writer", writer)
    builder.add_edge(START, "assistant")
    builder.add_conditional_edges("assistant", tools_condition)
    builder.add_edge("tools", "assistant")
    return builder.compile()


def handing_over(state: MessagesState) -> Any:
    reply = model.bind_tools([transfer]).invoke(state["messages"])
    return Command(goto="tools" if reply.tool_calls else END, update={"messages": [reply]})


by_hand, one_at_a_time, alone = (looped(node, look_up, count) for node in (assistant, changing, single))
passing = StateGraph(MessagesState).add_sequence([passed]).add_edge(START, "passed").compile()
indexed = StateGraph(MessagesState).add_sequence([forced]).add_edge(START, "forced").compile()
summarising = StateGraph(MessagesState).add_sequence([writer, summarise, ("answer", writer)])
summarising = summarising.add_edge(START, "writer").compile()

commands = StateGraph(MessagesState)
commands.add_node("assistant", handing_over, destinations=("tools", END))
commands.add_node("tools", ToolNode([transfer]))
commands.add_node("writer", writer)
commands.add_edge(START, "assistant")
