"""The command line that every measure shares."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.speed.results import SpeedResults

CORES = 2

Out = Annotated[Path, typer.Option(help="Folder of results.jsonl; what it has already is not measured again.")]
Repeats = Annotated[int, typer.Option(min=1, help="Rounds, of which the median counts.")]
Small = Annotated[bool, typer.Option("--small", help="A few rollouts each, to see that it runs.")]

OUT, REPEATS = Path("runs/speed"), 3


def opened(out: Path, repeats: int, small: bool) -> SpeedResults:
    """Return the results of a folder, and pin this process and its children to two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CORES]))
    return SpeedResults(out / "results.jsonl", repeats, small)


def command(measure: Callable[[SpeedResults], None], says: str | None) -> None:
    """Run one measure with the options of the command line."""

    def main(out: Out = OUT, repeats: Repeats = REPEATS, small: Small = False) -> None:
        measure(opened(out, repeats, small))

    main.__doc__ = says
    typer.run(main)
