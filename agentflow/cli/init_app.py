"""`agentflow init`: the files with which a graph of one's own is tried and trained."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from agentflow.cli.group import MISUSED, fail

app = typer.Typer()


@app.command("init", epilog="Example: agentflow init my_pkg.my_agent:agent")
def init(
    name: Annotated[
        str, typer.Argument(metavar="[MODULE:AGENT]", help="The graph; by default, the one of langgraph.json.")
    ] = "",
) -> None:
    """Look at a LangGraph graph, and write tasks and a reward to fill in, which are never overwritten."""
    from langchain_core.runnables import Runnable

    from agentflow.rl.apps.loading import load_app, served_graphs
    from agentflow.rl.apps.scaffold import GraphFacts, facts, write
    from agentflow.rl.apps.trainable import AppError
    from agentflow.rl.rollout.opening import opened

    served = served_graphs()
    if not name and len(served) != 1:
        known = f"langgraph.json has {', '.join(served)}" if served else "there is no langgraph.json here"
        fail(f"name the graph, as in my_agent:agent; {known}", MISUSED)
    name = name or next(iter(served))

    async def made_once(made: Any) -> GraphFacts:
        async with opened(made) as graph:
            return facts(graph)

    try:
        made = load_app(name, tasks="tasks.jsonl").built()
        found = facts(made) if isinstance(made, Runnable) else asyncio.run(made_once(made))
        written = write(found, Path.cwd())
    except (AppError, OSError) as error:
        if getattr(error, "code", "") == "unknown_options":
            fail(f"{name} has its own tasks and reward; see what it would learn with: agentflow try {name}", MISUSED)
        fail(str(error), MISUSED)
    takes = "messages" if found.inputs == {} else ", ".join(found.inputs or ()) or "what play() in reward.py gives it"
    lines = {
        "input": takes + (f" (and, where tasks have `inputs`, {', '.join(found.others)})" if found.others else ""),
        "context": f"{', '.join(found.context)}, which tasks have in a column" if found.context else "",
        "tools": ", ".join(found.tools),
        "interrupts": f"{', '.join(found.interrupts)}; answer() in reward.py replies" if found.interrupts else "",
        "memory": f"{', '.join(found.keeps)}: none, or an empty one, in each rollout" if found.keeps else "",
    }
    for head, line in lines.items():
        if line:
            typer.echo(f"{head}: {line}")
    for path, new in written.items():
        typer.echo(f"{path}: {'written; fill it in' if new else 'there already, left as it is'}")
    typer.echo(f"then: agentflow try {name} {found.options} --rollouts 4 --model own")
    typer.echo(f"next: agentflow train {name} {found.options} --preset qwen2.5-7b")
