"""`agentflow eval matrix`: evaluate models x agents x benchmarks.

Each combination of agent, model and planner has a folder; one page reports all of them.
"""

import re
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, call, fail, say
from agentflow.cli.report import read_folders
from agentflow.console.evaluations import print_matrix
from agentflow.console.terminal import console

app = typer.Typer()

STOP = "--fail-on-error"
PAGE = "report.html"


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    options_metavar="NAME... [OPTIONS]",
    epilog="Example: agentflow eval matrix atlas game24 --planner embedded:seed --planner embedded --limit 40 "
    "--out runs/matrix",
)
def matrix(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder of the evaluations and their page; the same command resumes.")],
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", metavar="SPEC", help="May be repeated; embedded by default.")
    ] = None,
    planner: Annotated[list[str] | None, typer.Option(metavar="SPEC", help="May be repeated.")] = None,
    agent: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="May be repeated; agentflow by default, or a baseline.")
    ] = None,
) -> None:
    """Evaluate every model with every agent on the named benchmarks, and write one report of all.

    Benchmarks and other options are those of agentflow eval.
    """
    combinations = list(dict.fromkeys(product(agent or ["agentflow"], model or ["embedded"], planner or [""])))
    folders = [out / _folder(*one) for one in combinations]
    if len(set(folders)) < len(folders):
        fail("two of the models would have the same folder; evaluate one of them in another matrix", MISUSED)
    calls = [_words(*one, folder, ctx.args) for one, folder in zip(combinations, folders, strict=True)]
    _check_models({spec for _, *specs in combinations for spec in specs if spec})
    failed = []
    for number, (words, folder) in enumerate(zip(calls, folders, strict=True), start=1):
        say(f"[{number}/{len(calls)}] {folder}")
        try:
            call(ctx, words)
        except typer.Exit as ended:
            if ended.exit_code != FAILED or STOP in ctx.args:
                raise
            failed.append(folder.name)
    print_matrix(console(), read_folders(folders))
    call(ctx, ["eval", "report", *map(str, folders), "--out", str(out / PAGE)])
    if failed:
        fail(f"nothing worked in {', '.join(failed)}; the same command with --retry repeats it", FAILED)


def _check_models(specs: set[str]) -> None:
    """End the command if a model cannot be loaded, before hours are spent on the others."""
    from agentflow.graph.context import DETERMINISTIC
    from agentflow.graph.models.loading import load_model
    from agentflow.graph.models.spec import ModelError

    for spec in sorted(specs):
        try:
            load_model(spec, DETERMINISTIC)
        except ModelError as error:
            fail(str(error), MISUSED)


def _folder(agent: str, model: str, planner: str) -> str:
    """Return the name of an evaluation's folder; independent of the other combinations of the matrix."""
    return "_".join(re.sub(r"[^\w.-]+", "-", one).strip("-.") for one in (agent, model, planner) if one)


def _words(agent: str, model: str, planner: str, folder: Path, others: list[str]) -> list[str]:
    planned = ["--planner", planner] if planner else []
    return ["eval", *others, "--agent", agent, "--model", model, *planned, "--out", str(folder)]
