"""A run as it happens, and one that is given up in the middle.

    python -m examples.stream

With a checkpointer a thread outlives both: of the run that was given up it keeps the turns that were finished, and it
takes the next question.
"""

import asyncio
from typing import Any

from agentflow import build_graph, open_checkpointer
from agentflow.graph.agent import Agent

thread: Any = {"configurable": {"thread_id": "1"}}
question = {"messages": [("user", "What is the country of Nusozeg, the city?")]}


async def watch(agent: Agent) -> None:
    """Prints each turn when it is finished, then the answer."""
    async for update in agent.astream(question, thread, stream_mode="updates"):
        for node, change in update.items():
            if node == "verifier":
                turn = change["memory"][0]
                print(f"turn {turn.turn}: {turn.plan.tool}: {turn.plan.sub_goal} -> {turn.verdict.signal}")
            elif node == "generator":
                print(change["answer"])


async def give_up(agent: Agent) -> None:
    """Cancels a run after its first turn."""
    first_turn = asyncio.Event()

    async def run() -> None:
        async for update in agent.astream(question, thread, stream_mode="updates"):
            if "verifier" in update:
                first_turn.set()

    running = asyncio.create_task(run())
    await first_turn.wait()
    running.cancel()
    await asyncio.wait([running])
    memory = (await agent.aget_state(thread)).values["memory"]
    print("given up; turns kept:", [turn.turn for turn in memory])


async def main() -> None:
    """The same question three times, the second one given up."""
    async with open_checkpointer("memory") as saver:
        agent = build_graph(checkpointer=saver)
        await watch(agent)
        await give_up(agent)
        await watch(agent)


if __name__ == "__main__":
    asyncio.run(main())
