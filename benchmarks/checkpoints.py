"""Measure the cost of saved runs: bytes per turn, before and after pruning, and time per checkpoint.

    python -m benchmarks.checkpoints --threads 1000

Runs have five turns, a model that answers immediately and a tool that returns 400 characters, so that only the graph
and the database are measured. Each turn takes four checkpoints (three nodes, and the mark of a tool with side effects).
If Debian's PostgreSQL server is installed, it is started in a temporary folder and measured too.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.tools import StructuredTool
from rich.progress import track

from agentflow.graph import threads
from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.checkpoints import open_checkpointer
from agentflow.graph.context import Context
from agentflow.graph.models import loading
from tests import scripted
from tests.integration.durability import postgres

TURNS = 5
AT_ONCE = 8
WORDS = "In 1907 the library of Fupoz held 4,210 volumes, most of them on tides, bees and the making of paper. " * 4


async def look_up(text: str) -> str:
    """Looks something up."""
    return WORDS


def agent(saver: Any) -> Agent:
    """Build the graph with its one tool."""
    return build_graph([StructuredTool.from_function(coroutine=look_up, name="echo")], checkpointer=saver)


def instant_model() -> Context:
    """Return settings with a model that answers immediately and never stops before the last turn."""
    found = scripted.Scripted(verifier="Analysis: The library is found, its founder is missing.\nVerdict: continue")
    entry = EntryPoint("scripted", "tests.scripted:load", "agentflow.models")
    loading.installed = lambda: {"scripted": entry}  # type: ignore[assignment]
    scripted._scripts[found.name] = found
    return Context(model=found.spec, max_turns=TURNS, max_seconds=3600)


async def run(graph: Agent, context: Context, number: int, says: str, **options: Any) -> float:
    """Return the mean wall-clock seconds per run over `number` runs, AT_ONCE of them at a time."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with limit:
            question = {"messages": [("user", f"Who founded the library of Fupoz ({name})?")]}
            await graph.ainvoke(question, threads.config_of(name), context=context, **options)

    start = time.perf_counter()
    for first in track(range(0, number, AT_ONCE), description=says, transient=True):
        await asyncio.gather(*(one(f"{says} {name}") for name in range(first, min(first + AT_ONCE, number))))
    return (time.perf_counter() - start) / number


async def measure(name: str, spec: str, context: Context, number: int, bare: float) -> None:
    """Print the measurements of one database; `bare` is the seconds of a run without a checkpointer."""
    async with open_checkpointer(spec) as saver:
        graph, few = agent(saver), max(8, number // 10)
        others = {mode: await run(graph, context, few, mode, durability=mode) for mode in ("async", "exit")}
        await threads.delete(graph, [thread.id for thread in await threads.threads(graph)])
        seconds = await run(graph, context, number, name)
        kept = await threads.threads(graph)
        checkpoints = sum(thread.checkpoints for thread in kept)
        start = time.perf_counter()
        await threads.prune(graph, [thread.id for thread in kept])
        pruning = time.perf_counter() - start
        pruned = await threads.threads(graph)
    turns = number * TURNS
    before, after = (sum(thread.bytes for thread in several) for several in (kept, pruned))
    each = 1000 * (seconds - bare) * number / checkpoints
    less = f"{before / after:.1f} times less"
    print(f"{name:<11}{before / turns:,.0f} bytes a turn as run, {after / turns:,.0f} pruned ({less})")
    print(f"{'':<11}pruning {number:,} threads: {pruning:.1f} s")
    print(f"{'':<11}{checkpoints / turns:.1f} checkpoints a turn, {each:.2f} ms each")
    print(
        f"{'':<11}a run of {TURNS} turns: {1000 * seconds:.1f} ms, {seconds / bare:.2f} times that without a "
        f"checkpointer (durability async {others['async'] / bare:.2f}, exit {others['exit'] / bare:.2f})"
    )


async def main(number: int) -> None:
    """Run all measurements and print them."""
    context = instant_model()
    await run(agent(None), context, 8, "warming up")
    bare = await run(agent(None), context, max(50, number // 5), "no checkpointer")
    print(f"{number:,} threads of {TURNS} turns, {AT_ONCE} at once; without a checkpointer {1000 * bare:.1f} ms a run")
    with TemporaryDirectory(prefix="agentflow-checkpoints-") as folder:
        home = Path(folder)
        await measure("SQLite", f"sqlite:{home / 'threads.sqlite'}", context, number, bare)
        if reason := postgres.missing():
            print(f"PostgreSQL not measured: {reason}")
            return
        os.chmod(home, 0o755)  # noqa: S103 - the server runs as a user of its own
        with postgres.server(home / "server") as url:
            await measure("PostgreSQL", url, context, number, bare)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1000, help="runs per database")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the database server when killed
    asyncio.run(main(parser.parse_args().threads))
