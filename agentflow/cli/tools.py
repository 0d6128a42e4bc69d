"""`agentflow tools` and `agentflow tools test`: list the tools, and try them."""

import asyncio
from typing import Annotated, Any

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail
from agentflow.cli.options import AsJson, Corpus, Model, Tools, names_in, validated
from agentflow.console.checks import print_checks, print_trials, unusable
from agentflow.console.terminal import console, print_json
from agentflow.tools.json_codec import object_from_json

app = typer.Typer(cls=CommandGroup)


@app.callback(invoke_without_command=True, epilog="Example: agentflow tools --tools google_search,my_pkg.tools:search")
def list_tools(
    ctx: typer.Context,
    tools: Tools = None,
    corpus: Corpus = "auto",
    approve: Annotated[
        bool, typer.Option("--approve", help="Take the new and changed tools of the MCP servers that --tools names.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the tools with a description, or with what each needs before it can be used."""
    if ctx.invoked_subcommand is not None:
        return
    from agentflow.checks import doctor
    from agentflow.tools.catalogue import STANDARD_TOOLS

    if approve:
        _approve(tools)
    names = STANDARD_TOOLS if tools is None else names_in(tools)
    found = asyncio.run(doctor.tools(validated({"tools": list(names), "corpus": corpus})))
    print_checks(console(), found, as_json=as_json)


app.command("list", hidden=True, epilog="Example: agentflow tools list")(list_tools)  # as data and threads have it


def _approve(tools: str | None) -> None:
    from agentflow.tools import external

    try:
        approved = [external.approve(spec) for spec in names_in(tools or "")]
    except OSError as error:
        fail(f"what was pinned cannot be removed ({error.strerror}: {error.filename})", MISUSED)
    if not any(approved):
        fail("--approve needs --tools to name an MCP server, as mcp:...", MISUSED)


@app.command("test", epilog="""Example: agentflow tools test --tools mcp:servers.json --call 'add={"a": 1, "b": 2}'""")
def try_tools(
    tools: Tools = None,
    corpus: Corpus = "auto",
    model: Model = "embedded",
    call: Annotated[
        list[str] | None, typer.Option(metavar="NAME=JSON", help="Arguments to try a tool with, if not its example.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call every enabled tool once, and print whether it works, its time, its sandbox and a remedy.

    Exits with 0 if all work. A tool without an example is called only if --call names its arguments.
    """
    from agentflow.checks.doctor import tried
    from agentflow.graph.context import DEFAULT_TOOLS

    names = DEFAULT_TOOLS if tools is None else names_in(tools)
    calls = dict(_call(text) for text in call or [])
    context = validated({"tools": list(names), "corpus": corpus, "model": model})
    with console(stderr=True).status("the tools are being tried"):
        trials = asyncio.run(tried(context, calls))
    broken = [trial.name for trial in trials if trial.works == "no"]
    if (unknown := calls.keys() - {trial.name for trial in trials}) and not broken:
        fail(f"--call names {min(unknown)}, which is not among the tools", MISUSED)
    if as_json:
        print_json({"trials": trials})
    else:
        print_trials(console(), trials)
    if broken:
        fail(unusable(broken), FAILED)


def _call(text: str) -> tuple[str, dict[str, Any]]:
    name, _, arguments = text.partition("=")
    if (found := object_from_json(arguments)) is None:
        fail(f"--call {text}: write NAME=JSON, where JSON is an object of arguments", MISUSED)
    return name.strip(), found
