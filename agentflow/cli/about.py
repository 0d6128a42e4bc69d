"""`agentflow graph` and `agentflow doctor`: print the agent's graph, and check the installation."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.checks.check import Check
from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail
from agentflow.cli.options import AsJson, Overrides, validated
from agentflow.console.checks import checks_data, print_checks
from agentflow.console.terminal import console, print_json

if TYPE_CHECKING:
    from agentflow.rl.template import Certificate

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
    context: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Check what is installed, configured and reachable; exits with 0 if the embedded model (and SPEC) works."""
    if ctx.invoked_subcommand is not None:
        return
    from agentflow.checks import doctor as checks
    from agentflow.graph.context import Context
    from agentflow.tools.catalogue import STANDARD_TOOLS

    needed = asyncio.run(checks.embedded())
    if model:
        needed += _model_checks(model, context or [])
    tools = checks.tools(STANDARD_TOOLS, Context(model=model or "embedded").search)
    found = [*checks.versions(), *needed, *tools, *checks.engines(), checks.training(), *checks.keys()]
    if as_json:
        print_json(checks_data(found))
    else:
        print_checks(console(), found)
    if failed := [what for what, works, _ in needed if works == "no"]:
        fail(f"{', '.join(failed)} {'does' if len(failed) == 1 else 'do'} not work: see above", FAILED)


def _model_checks(spec: str, overrides: list[str]) -> list[Check]:
    from agentflow.checks.model import examine

    context = validated({"model": spec}, overrides)
    with console(stderr=True).status("the model is being tried"):
        return asyncio.run(examine(spec, context))


@doctor.command(epilog="Example: agentflow doctor template ~/models/Qwen2.5-7B-Instruct")
def template(
    folder: Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="A model's folder; its tokenizer is enough.")],
) -> None:
    """Check what a model's chat template costs in training; exits with 1 if a prompt rewrites earlier turns."""
    from agentflow.rl.template import TemplateError, certify, load_tokenizer

    try:
        with console(stderr=True).status("the tokenizer is being loaded"):
            found = certify(load_tokenizer(folder))
    except ImportError as error:
        fail(f"needs {error.name}; install it with: pip install 'agentflow-langgraph[local]'", MISUSED)
    except TemplateError as error:
        fail(str(error), MISUSED)
    print_checks(console(), _template_checks(found))
    if found.plain.rows > 1:
        fail("with this template a trajectory cannot be one row; training works, at the cost above", FAILED)


def _template_checks(found: "Certificate") -> list[Check]:
    checks: list[Check] = [("chat template", "ok", "takes the planner's roles: system, user, assistant")]
    for name, packed in (("plain replies", found.plain), ("replies that think", found.thinking)):
        if packed.rows == 1:
            checks.append((name, "ok", f"3 turns are one row of {packed.tokens:,} tokens"))
        else:
            costs = f"3 turns are {packed.rows} rows, {packed.ratio:.1f} times the tokens of one"
            checks.append((name, "no", f"{costs}: {packed.breaks}"))
    end = (
        "is the token that the tokenizer calls the end" if found.ends_itself else "is another token than its eos_token"
    )
    checks.append(("end of a reply", "ok" if found.ends_itself else "no", end))
    opens = "opens a <think> block, which is the prompt's and not trained" if found.opens_thinking else "opens no block"
    checks.append(("generation prompt", "-", opens))
    return checks
