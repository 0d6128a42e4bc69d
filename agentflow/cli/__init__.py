"""Command line of AgentFlow: one module for each family of commands.

Heavy parts (the graph, models, evaluation) are imported inside the commands, so that --help is fast.
"""

from typing import Annotated

import typer

from agentflow.cli import (
    about,
    calibrate,
    chat,
    corpus,
    data,
    evaluate,
    init_app,
    mcp,
    report,
    rescore,
    serve,
    solve,
    threads,
    tools,
    train,
    try_app,
    view,
)
from agentflow.cli.dotenv_file import read_dotenv
from agentflow.cli.group import CommandGroup
from agentflow.tools.proxies import without_proxy
from agentflow.version import __version__

app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False, rich_markup_mode="rich")
for commands in (solve, chat, init_app, try_app, calibrate, train, view, serve, mcp):
    app.add_typer(commands.app)
for commands in (rescore, report):
    evaluate.app.add_typer(commands.app)
app.add_typer(evaluate.app, name="eval")
app.add_typer(data.app, name="data")
app.add_typer(corpus.app, name="corpus")
app.add_typer(tools.app, name="tools")
app.add_typer(threads.app, name="threads")
app.add_typer(about.app)
app.add_typer(about.doctor, name="doctor")


def main() -> None:
    """Entry point of the `agentflow` command."""
    read_dotenv()
    without_proxy()
    app(prog_name="agentflow")


@app.callback(invoke_without_command=True)
def agentflow(
    ctx: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """An agent of planner, executor, verifier and generator. Try: agentflow solve "How many feet are 3 yards?" """
    if show_version:
        typer.echo(f"agentflow {__version__}")
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
