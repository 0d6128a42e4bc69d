"""The agent as a tool of another agent: LangGraph's loop of a model and its tools.

    python -m examples.as_tool

The other agent's model is a stand-in, which hands each question to its tool and repeats what the tool says; put any
chat model that calls tools in its place. `create_react_agent(model, [research])` builds the same loop in a line; of
LangGraph 1 it warns that it has moved to the package langchain, as `create_agent`, which takes the same tool.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agentflow import Context, build_tool

research = build_tool(Context(max_turns=6), name="research")


class StandIn(BaseChatModel):
    """Call the tool `research` with the user's message, and repeat the result."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "StandIn":
        """Nothing to bind: it knows its tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(f"My researcher says: {last.text}")
        else:
            reply = AIMessage("", tool_calls=[{"name": "research", "args": {"question": last.text}, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


model = StandIn().bind_tools([research])


async def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
    """One reply of the model."""
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("model", think)
builder.add_node("tools", ToolNode([research]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
assistant = builder.compile()


async def main() -> None:
    """Asks one question."""
    found = await assistant.ainvoke({"messages": [("user", "What is the country of Nusozeg, the city?")]})
    print(found["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
