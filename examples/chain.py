"""The agent as a step of an LCEL chain: a prompt before it, a parser after it, one question or many.

python -m examples.chain
"""

import asyncio
from operator import itemgetter

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from agentflow import Context, build_graph

prompt = ChatPromptTemplate.from_messages([("user", "How many feet are {yards} yards?")])
agent = build_graph(context=Context(max_turns=6))
chain = prompt | RunnableLambda(lambda asked: {"messages": asked.to_messages()}) | agent | itemgetter("answer") | float


async def main() -> None:
    """Asks alone, and in a batch of which two run at a time."""
    print(chain.invoke({"yards": 3}))
    print(await chain.abatch([{"yards": yards} for yards in (5, 6, 7)], {"max_concurrency": 2}))


if __name__ == "__main__":
    asyncio.run(main())
