"""A tool of one's own in under ten lines.

    python -m examples.custom_tool

Any LangChain tool is one; what the planner reads of it is its docstring, and an example of a call is made up from its
arguments. The embedded model was trained with three tools and chooses no others, so this one takes the name of one of
them, and thereby its place; with a larger model, call it what you like.
"""

import asyncio

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from agentflow import Context, build_graph

ARTICLES = {"Nusozeg (city)": "Nusozeg (city): City with population 9, country Kevod, mayor Rudolf."}


@tool
def wikipedia_search(query: str) -> str:
    """Looks up an encyclopedia by the name of a person, place, firm, work or topic and returns its article."""
    return ARTICLES.get(query, f"{query}: May mean {' or '.join(ARTICLES)}.")


# What the docstring does not say can be added for the planner: limits, and examples of good calls.
wikipedia_search.metadata = {"agentflow": {"limits": "One name.", "examples": [{"query": "Alan Turing"}]}}

agent = build_graph([wikipedia_search], context=Context(max_turns=6))


async def main() -> None:
    """Asks what only that tool can know."""
    question = HumanMessage("What is the country of Nusozeg, the city?")
    found = await agent.ainvoke({"messages": [question]})
    print(found["answer"])


if __name__ == "__main__":
    asyncio.run(main())
