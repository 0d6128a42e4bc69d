"""The verifier as middleware of LangChain's `create_agent`: it sends a wrong answer back before a person gets it.

    python -m examples.middleware

Both models are stand-ins, which say their lines: put `"openai:gpt-4o-mini"`, or any chat model, in their places. With
`PlannerVerifierMiddleware` in the same place, a planner also names each step. deepagents take both in the same way.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from agentflow import VerifierMiddleware


def stock(article: str) -> str:
    """How many pieces of an article are in the warehouse, by its number."""
    return {"A-17": "42 pieces"}.get(article, "no such article")


class StandIn(GenericFakeChatModel):
    """Say one line after the other."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "StandIn":
        """Nothing to bind: its lines hold the calls."""
        return self


model = StandIn(
    messages=iter(
        [
            AIMessage("About a hundred."),
            AIMessage("", tool_calls=[{"name": "stock", "args": {"article": "A-17"}, "id": "1"}]),
            AIMessage("42 pieces."),
        ]
    )
)
judge = StandIn(
    messages=iter(
        [
            AIMessage("Analysis: No tool was asked for the number.\nVerdict: continue"),
            AIMessage("Analysis: The warehouse has 42 pieces, as the answer says.\nVerdict: stop"),
        ]
    )
)
agent = create_agent(model, [stock], middleware=[VerifierMiddleware(judge)])


async def main() -> None:
    """Asks one question, and prints the conversation and the verdict."""
    found = await agent.ainvoke({"messages": [("user", "How many A-17 do we have?")]})
    for message in found["messages"][1:]:
        print(f"{message.type}: {message.text or message.tool_calls[0]['args']}")
    print(found["verdict"]["signal"])


if __name__ == "__main__":
    asyncio.run(main())
