"""The agent as a node of another LangGraph app, which has a state and a context of its own.

    python -m examples.subgraph

Both apps keep a conversation under `messages`, so the agent is a node as it is. Where states differ, a function calls
it: see `summarise`, which also shows what more the agent's state holds than its answer.
"""

import asyncio
from typing import TypedDict

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from agentflow import Context, State, build_graph

agent = build_graph(context=Context(max_turns=6))
"""Its settings are given here, since the context of a run is the parent's."""


class Desk(TypedDict):
    """The parent's own context."""

    user: str


class Case(MessagesState):
    """The parent's own state."""

    note: str


async def summarise(state: Case, runtime: Runtime[Desk]) -> dict[str, str]:
    """Asks the agent by a call of its own, for a state that looks different."""
    found = State.model_validate(await agent.ainvoke({"messages": state["messages"][:1]}))
    steps = ", ".join(turn.plan.tool for turn in found.memory)
    return {"note": f"{runtime.context['user']} asked; {len(found.memory)} turns ({steps}); {found.status}"}


builder = StateGraph(Case, context_schema=Desk)
builder.add_node("agent", agent)
builder.add_node("summarise", summarise)
builder.add_edge(START, "agent")
builder.add_edge("agent", "summarise")
builder.add_edge("summarise", END)
app = builder.compile()


async def main() -> None:
    """Asks one question."""
    asked = {"messages": [("user", "What is the country of Nusozeg, the city?")]}
    found = await app.ainvoke(asked, context={"user": "Ada"})
    print(found["messages"][-1].text)
    print(found["note"])


if __name__ == "__main__":
    asyncio.run(main())
