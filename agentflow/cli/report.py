"""`agentflow eval report` and `compare`: a page of evaluations, and the difference of two."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.options import AsJson
from agentflow.console.evaluations import comparison_data, print_comparison
from agentflow.console.terminal import console, print_json
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.evals.runs import Run

app = typer.Typer()

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that --out of agentflow eval made.")]


@app.command(epilog="Example: agentflow eval report runs/seed runs/trained --out report.html")
def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    with_gated: Annotated[
        bool, typer.Option("--with-gated", help="Show GPQA and GAIA too; do not share such a page.")
    ] = False,
) -> None:
    """Write one HTML page of evaluations, with every trace."""
    from agentflow.view.export import evaluations

    runs = read_folders(folders)
    with console(stderr=True).status("writing the page"):
        report = evaluations(runs, with_gated=with_gated)
    try:
        out.write_text(report.html, encoding="utf-8")
    except OSError as error:
        fail(f"{error.filename or out} could not be written ({error.strerror}); choose another --out", FAILED)
    size = len(report.html) / 1e6
    typer.echo(f"{out}: {report.traces:,} traces of {len(runs)} evaluations, {size:.1f} MB")
    if report.gated:
        typer.echo(f"texts of {report.gated:,} traces of gated benchmarks are left out; see --with-gated")
    if (cut := report.traces - report.gated - report.with_text) > 0:
        typer.echo(f"texts of {cut:,} traces are left out, so that the page stays small; their rows are there")


@app.command(epilog="Example: agentflow eval compare runs/seed runs/trained")
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder of an evaluation.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Folder of another one.")],
    as_json: AsJson = False,
) -> None:
    """Test whether two evaluations differ, question by question."""
    from agentflow.evals.statistics import compare as compared
    from agentflow.evals.statistics import holm

    a, b = read_folders([first, second])
    names = [cell.benchmark for cell in a.cells if cell.benchmark in b.settings.benchmarks]
    found = {}
    for name in names:
        before, after = a.tries(name), b.tries(name)
        if before.keys() & after.keys():
            found[name] = compared(before, after)
            if alone := len(before.keys() ^ after.keys()):
                say(f"note: {name}: {alone:,} questions are in only one of them and left out")
    if not found:
        asked = " and ".join(f"{run.name} of {', '.join(run.settings.benchmarks)}" for run in (a, b))
        fail(f"no question in common: {asked}; compare evaluations of the same benchmark, a file by its name", MISUSED)
    if different := _other_settings(a, b):
        say(f"note: besides the planner, they differ in {', '.join(different)}")
    for cell in (*a.cells, *b.cells):
        counts = {"failed": cell.failed, "undecided": cell.undecided}
        wrong = " and ".join(f"{number} {kind}" for kind, number in counts.items() if number)
        if wrong and cell.benchmark in found:
            say(f"note: {cell.benchmark}: of {cell.ended} tries of {cell.run}, {wrong} count as wrong")
    corrected = dict(zip(found, holm(list(found.values())), strict=True))
    if as_json:
        print_json(comparison_data((a.name, b.name), corrected))
        return
    print_comparison(console(), (a.name, b.name), corrected)
    for name in found:
        both = a.tries(name).keys() & b.tries(name).keys()
        costs = [f"{run.tokens_per_right_answer(name, both):,.0f} ({run.name})" for run in (a, b)]
        typer.echo(one_line(f"{name}: tokens per right answer: {', '.join(costs)}"))


def read_folders(folders: list[Path]) -> "list[Run]":
    """Read the evaluations in `folders`; ends the command if one cannot be read or is empty."""
    from agentflow.evals.runs import read_runs

    runs = read_runs(folders)
    if empty := [run.name for run in runs if not run.records]:
        fail(f"{empty[0]} has no traces yet; run the evaluation first", MISUSED)
    return runs


_NO_SETTINGS = {"context", "benchmarks", "epochs", "checkpoints", "prices", "provenance"}
"""Fields of settings that describe the questions, the prices or the program, or that `_limits` compares."""


def _other_settings(a: "Run", b: "Run") -> list[str]:
    """Return the names of settings that differ, without the planner and the questions; "the program" if it differs."""
    ours, theirs = ({**run.settings.model_dump(exclude=_NO_SETTINGS), **_limits(run)} for run in (a, b))
    programs = [run.settings.provenance[-1] for run in (a, b) if run.settings.provenance]
    other = len(programs) == 2 and programs[0].differences(programs[1])
    return [name for name in ours if ours[name] != theirs[name]] + (["the program"] if other else [])


def _limits(run: "Run") -> dict[str, object]:
    context = run.settings.context
    return {**context.model_dump(exclude={"models"}), "models": context.models | {"planner": ""}}
