"""A node of one's own in place of ours, in under ten lines: here a verifier that asks no model.

    python -m examples.custom_node

What each node must return, and how it is checked, stands in `agentflow.graph.custom_node`.
"""

import asyncio
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from agentflow import Context, State, Verdict, build_graph
from agentflow.nodes.verifier import close


def verifier(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Stops at the first result that is a number."""
    output = state.action.result.output if state.action else ""
    done = output.strip().lstrip("-").replace(".", "", 1).isdigit()
    verdict = Verdict(analysis=f"{output} is {'' if done else 'not '}a number.", signal="stop" if done else "continue")
    return close(state, verdict, Context.of(runtime))


agent = build_graph(nodes={"verifier": verifier})


async def main() -> None:
    """Asks one question."""
    found = await agent.ainvoke({"messages": [HumanMessage("How many feet are 3 yards?")]})
    print(found["memory"][-1].verdict.analysis)
    print(found["answer"])


if __name__ == "__main__":
    asyncio.run(main())
