"""`agentflow init`: the files with which a graph of one's own is tried and trained."""

import asyncio
from pathlib import Path
from shlex import quote
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
    """Write tasks and a reward for a LangGraph graph, for you to fill in. Overwrites nothing."""
    from agentflow.rl.apps.loading import load_app, served_graphs
    from agentflow.rl.apps.scaffold import write
    from agentflow.rl.apps.trainable import AppError, app_errors
    from agentflow.rl.rollout.opening import opened

    served = served_graphs()
    if not name and len(served) != 1:
        known = f"langgraph.json has {', '.join(served)}" if served else "there is no langgraph.json here"
        fail(f"name the graph, as in my_agent:agent; {known}", MISUSED)
    name = name or next(iter(served))

    async def graph(made: Any) -> Any:
        async with opened(made) as found:
            return found

    try:
        with app_errors(name):
            found = asyncio.run(graph(load_app(name, tasks="tasks.jsonl").built()))
        written = write(found, Path.cwd())
    except (AppError, OSError) as error:
        if getattr(error, "code", "") == "unknown_options":
            fail(f"{name} has its own tasks and reward; see what it would learn with: agentflow try {name}", MISUSED)
        fail(str(error), MISUSED)
    for path, new in written.items():
        typer.echo(f"{path}: {'written; fill it in' if new else 'there already, left as it is'}")
    name, options = quote(name), "--tasks tasks.jsonl --reward reward:score"
    typer.echo(f"then: agentflow try {name} {options} --rollouts 4")
    typer.echo(f"next: agentflow train {name} {options} --preset qwen2.5-7b")
    typer.echo("      without a GPU: --preset qwen2.5-0.5b-cpu")
