"""Run all missing measurements, print the table, and write docs/performance.md with its figures.

`make bench` first creates the peers' venvs. Each measure is also a command: `python -m benchmarks.speed.turn`.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.speed import batch, embedded, growth, imports, install, load, step, store, turn
from benchmarks.speed.command import OUT, REPEATS, Out, Repeats, Small, opened
from benchmarks.speed.page import HEAD, missing, write
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.rows import cells

MEASURES = {
    "imports": imports.measure,
    "install": install.measure,
    "turn": turn.measure,
    "load": load.measure,
    "store": store.measure,
    "batch": batch.measure,
    "embedded": embedded.measure,
    "growth": growth.measure,
}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    measures: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MEASURES)}; none: all.")] = None,
    out: Out = OUT,
    repeats: Repeats = REPEATS,
    small: Small = False,
    docs: Annotated[Path | None, typer.Option(help="Folder of performance.md and its figures.")] = None,
    training: Annotated[Path | None, typer.Option(help="A training to read what a step of Flow-GRPO takes.")] = None,
) -> None:
    """Measure ours, peers and floors."""
    if unknown := [name for name in measures or () if name not in MEASURES]:
        raise typer.BadParameter(f"there is no measure '{unknown[0]}'; the measures are {', '.join(MEASURES)}")
    results = opened(out, repeats, small)
    for name in measures or MEASURES:
        MEASURES[name](results)
    step.measure(results, training)
    show(results, Console())
    if docs:
        typer.echo(f"the page is {write(docs, results)}")


def show(results: SpeedResults, console: Console) -> None:
    """Print the table, and the contenders that were not measured."""
    shown = Table(*HEAD)
    for row in cells(results):
        shown.add_row(*row)
    console.print(shown)
    console.print(f"Not measured\n{missing(results)}", markup=False)


if __name__ == "__main__":
    app()
