"""`agentflow graph` and `doctor`: how it is built, and what works."""

import asyncio
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, fail
from agentflow.console.checks import print_checks
from agentflow.console.terminal import console

app = typer.Typer()


@app.command("graph", epilog="Example: agentflow graph > agentflow.mmd")
def draw_graph() -> None:
    """Print the agent's graph as mermaid text."""
    from agentflow.graph.agent import graph

    typer.echo(graph.get_graph().draw_mermaid().rstrip())


@app.command("doctor", epilog="Example: agentflow doctor --model vllm:my-model@http://127.0.0.1:8000/v1")
def check(
    model: Annotated[str | None, typer.Option(metavar="SPEC", help="Also ask for this model at its server.")] = None,
) -> None:
    """Check what is installed, configured and reachable; exits with 0 if the embedded model (and SPEC) works."""
    from agentflow import doctor as checks
    from agentflow.tools.catalogue import STANDARD_TOOLS
    from agentflow.tools.search_settings import SearchSettings

    needed = [*asyncio.run(checks.embedded()), *([checks.model(model)] if model else [])]
    tools = checks.tools(STANDARD_TOOLS, SearchSettings())
    print_checks(console(), [*checks.versions(), *needed, *tools, *checks.engines(), checks.training(), *checks.keys()])
    if any(works == "no" for _, works, _ in needed):
        fail("something that is needed does not work: see the lines marked 'no'", FAILED)
