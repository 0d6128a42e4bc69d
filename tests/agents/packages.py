"""Agents of packages that make test does not install; each function imports its own."""

from typing import Any

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from tests.agents.model import model
from tests.agents.structured import Sum


def codeact() -> Any:
    from langgraph_codeact import create_codeact

    @tool
    def shout(word: str) -> str:
        """Say a word."""
        return word.upper()

    return create_codeact(model, [shout], lambda code, names: (f"It printed {code}.", {})).compile()


def langmem() -> Any:
    from langchain.agents import create_agent
    from langmem import create_manage_memory_tool, create_search_memory_tool

    tools = [create_manage_memory_tool(("memories",)), create_search_memory_tool(("memories",))]
    return create_agent(model, tools)


def trustcall() -> Any:
    from trustcall import create_extractor

    extractor = create_extractor(model, tools=[Sum], tool_choice="Sum")

    async def extract(state: MessagesState) -> Any:
        found = await extractor.ainvoke({"messages": state["messages"]})
        return {"messages": [("ai", str(found["responses"]))]}

    return StateGraph(MessagesState).add_node(extract).add_edge(START, "extract").compile()
