"""The process that tests kill: it answers with scripted models, and a tool that appends to a file.

python -m tests.integration.durability.agent SPEC THREAD FOLDER POINT

At POINT it says so on stdout and hangs, until it is killed: "planner" and "executor" in a model call, "before" a call's
mark, "in" the call when nothing is written yet, "after" it when the line is there. "none" never hangs. A thread that is
there is resumed.
"""

import asyncio
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool

from agentflow.graph.agent import build_graph
from agentflow.graph.checkpoints import open_checkpointer
from agentflow.graph.context import Context
from agentflow.graph.models import loading
from agentflow.nodes.executor import Executor
from tests import scripted

WRITE = "Sub-Goal: write it down\nTool: append\nContext: hello"
LOOK = "Sub-Goal: see what is written\nTool: read\nContext: the file"


async def hang(point: str) -> None:
    print(point, flush=True)
    await asyncio.Event().wait()


def tools(file: Path, point: str) -> list[BaseTool]:
    async def append(text: str) -> str:
        """Appends a line."""
        if point == "in":
            await hang(point)
        with file.open("a") as out:
            out.write(f"{text}\n")
        if point == "after":
            await hang(point)
        return "written"

    def read() -> str:
        """Reads the lines."""
        return file.read_text() if file.exists() else "nothing is written"

    harmless = {"agentflow": {"side_effects": False}}
    return [
        StructuredTool.from_function(coroutine=append, name="append"),
        StructuredTool.from_function(read, name="read", metadata=harmless),
    ]


def script(point: str) -> scripted.Scripted:
    """Writes, and looks whether it is written where that is uncertain; answers with what it knows."""

    async def planner(conversation: list[BaseMessage]) -> str:
        if point == "planner":
            await hang(point)
        said = conversation[-1].text
        if "nothing is written" in said:
            return WRITE
        return LOOK if "Result: written" in said or "Failed (uncertain)" in said else WRITE

    async def executor(conversation: list[BaseMessage]) -> str:
        if point == "executor":
            await hang(point)
        return '{"text": "hello"}' if "append" in conversation[0].text else "{}"

    def verifier(conversation: list[BaseMessage]) -> str:
        return "It is there.\nVerdict: stop" if "Result: hello" in conversation[-1].text else "Verdict: continue"

    def generator(conversation: list[BaseMessage]) -> str:
        return f"Answer: {conversation[-1].text.rpartition('Result: ')[2].partition(chr(10))[0]}"

    return scripted.Scripted(planner=planner, executor=executor, verifier=verifier, generator=generator)


async def main(spec: str, thread: str, folder: Path, point: str) -> None:
    found = script(point)
    entry = EntryPoint("scripted", "tests.scripted:load", "agentflow.models")
    loading.installed = lambda: {"scripted": entry}  # type: ignore[assignment]
    scripted._scripts[found.name] = found
    if point == "before":
        call = Executor._call

        async def before(*given: Any) -> Any:
            await hang(point)
            return await call(*given)

        Executor._call = before  # type: ignore[method-assign]
    config: Any = {"configurable": {"thread_id": thread}}
    async with open_checkpointer(spec) as saver:
        graph = build_graph(tools(folder / f"{thread}.txt", point), checkpointer=saver)
        begun = bool((await graph.aget_state(config)).values)
        given = None if begun else {"messages": [("user", "Write hello.")]}
        state = await graph.ainvoke(given, config, context=Context(model=found.spec))
        print(f"{state['status']}: {state['answer']}: {[turn.action.result.error for turn in state['memory']]}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
