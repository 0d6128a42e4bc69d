"""`agentflow eval power`: compute the number of questions needed to show a difference."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail, say
from agentflow.cli.report import read_folders
from agentflow.console.evaluations import print_plans
from agentflow.console.terminal import console

if TYPE_CHECKING:
    from agentflow.evals.runs import Run

app = typer.Typer()


@app.command(epilog="Example: agentflow eval power --accuracy 0.5 --difference 0.05 --epochs 4")
def power(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder of an evaluation whose figures are the baseline's.")
    ] = None,
    difference: Annotated[float, typer.Option(help="Difference to detect, such as 0.05 or -0.05.")] = 0.05,
    accuracy: Annotated[
        float | None, typer.Option(min=0, max=1, help="Accuracy of the baseline, instead of a folder.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=64, help="Tries of each question; without it, the folder's, or 1.")
    ] = None,
    between: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of the variance of tries that is between questions; without it, the folder's, or 0.5.",
        ),
    ] = None,
    chance: Annotated[
        float, typer.Option("--power", min=0.5, max=0.999, help="Probability to detect the difference.")
    ] = 0.8,
    alpha: Annotated[float, typer.Option(min=0.0001, max=0.5, help="Probability of a false detection.")] = 0.05,
) -> None:
    """Compute how many questions are needed to show a difference, on the same questions and on different ones."""
    from agentflow.evals.power import BETWEEN, PlannedComparison

    if (folder is None) == (accuracy is None):
        fail("name the baseline's folder or its --accuracy, one of the two", MISUSED)
    known = _baselines(read_folders([folder])[0]) if folder else [("any", accuracy or 0.0, 1, None)]
    plans = {}
    for name, baseline, tries, measured in known:
        share = next((one for one in (between, measured) if one is not None), None)
        if share is None:
            say(f"note: {name}: how much questions differ is not known; --between is taken to be {BETWEEN}")
            share = BETWEEN
        try:
            plan = PlannedComparison(baseline, round(baseline + difference, 12), epochs or tries, share, chance, alpha)
        except ValueError as error:
            fail(f"{error}; choose another --difference", MISUSED)
        plans[name] = plan
    print_plans(console(), plans)


def _baselines(run: "Run") -> "Iterator[tuple[str, float, int, float | None]]":
    """Yield name, accuracy of finished tries, epochs and between-question share of variance of each benchmark."""
    from statistics import fmean

    from agentflow.evals.power import between

    for cell in run.cells:
        if tries := run.tries(cell.benchmark):
            yield cell.benchmark, fmean(map(fmean, tries.values())), cell.epochs, between(tries)
