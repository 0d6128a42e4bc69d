"""`agentflow graph` and `agentflow doctor`: print the agent's graph, and check the installation."""

import asyncio
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail
from agentflow.cli.options import AsJson, Overrides, validated
from agentflow.console.checks import print_checks, print_template, unusable
from agentflow.console.terminal import console
from agentflow.version import pip_install

app = typer.Typer()
doctor = typer.Typer(cls=CommandGroup, invoke_without_command=True)


@app.command("graph", epilog="Example: agentflow graph > agentflow.mmd")
def draw_graph() -> None:
    """Print the agent's graph as mermaid text."""
    from agentflow.graph.agent import graph

    typer.echo(graph.get_graph().draw_mermaid().rstrip())


@doctor.callback(epilog="Example: agentflow doctor --model vllm:my-model@http://127.0.0.1:8000/v1")
def check(
    ctx: typer.Context,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Also try this model: one reply of each module, and its server.")
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Check what is installed, configured and reachable; exits with 0 if the embedded model (and SPEC) works."""
    if ctx.invoked_subcommand is not None:
        return
    from agentflow.checks import doctor as checks
    from agentflow.checks.model import examine
    from agentflow.tools.catalogue import STANDARD_TOOLS

    context = validated({"model": model or "embedded"}, overrides or ())
    own, tried = asyncio.run(checks.embedded()), list[checks.Check]()
    if model:
        with console(stderr=True).status("the model is being tried"):
            tried = asyncio.run(examine(model, context))
    tools = checks.standard(STANDARD_TOOLS, context.search)
    found = [*checks.versions(), *own, *tools, *checks.engines(), checks.training(), *checks.keys(), *tried]
    print_checks(console(), found, as_json=as_json)
    if failed := [what for what, works, _ in (*own, *tried) if works == "no"]:
        fail(unusable(failed), FAILED)


@doctor.command(epilog="Example: agentflow doctor template ~/models/Qwen2.5-7B-Instruct")
def template(
    folder: Annotated[
        str, typer.Argument(metavar="MODEL_DIR", help="A model's folder, or a name on the hub that was downloaded.")
    ],
) -> None:
    """Check what a model's chat template costs in training; exits with 1 if a prompt rewrites earlier turns."""
    from agentflow.rl.rollout.template import certify, folder_on_disk, load_tokenizer

    try:
        with console(stderr=True).status("the tokenizer is being loaded"):
            found = certify(load_tokenizer(folder_on_disk(folder)))
    except ImportError as error:
        fail(f"needs {error.name}; install it with: {pip_install('local')}", MISUSED)
    print_template(console(), found)
    if found.plain.rows > 1:
        fail("with this template a trajectory cannot be one row; training works, at the cost above", FAILED)
    if not all(calls.works for calls in found.calls.values()):
        fail(
            "not every call of a tool is read or trained on as it is sampled; name its parser with tool_parser=", FAILED
        )
