"""Measure what is missing, and write OUT/results.md: a table of each measure.

`make bench` first creates the peers' venvs. docs/lab/performance.md has the figures of an idle machine.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.speed.measures import MEASURES
from benchmarks.speed.results import SpeedResults

CORES = 2


def main(
    measures: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MEASURES)}; none: all.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results; what it has is not measured again.")] = Path(
        "runs/speed"
    ),
    repeats: Annotated[int, typer.Option(min=1, help="Rounds, of which the median counts.")] = 3,
    small: Annotated[bool, typer.Option("--small", help="A few rollouts each, to see that it runs.")] = False,
) -> None:
    """Measure ours, peers and the floor."""
    if unknown := set(measures or ()) - MEASURES.keys():
        raise typer.BadParameter(f"there is no measure '{unknown.pop()}'; the measures are {', '.join(MEASURES)}")
    if hasattr(os, "sched_setaffinity"):  # this process and its children
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CORES]))
    results = SpeedResults(out / "results.jsonl")
    for name in measures or MEASURES:
        for repeat in range(repeats):
            for one in MEASURES[name].contenders:
                results.once(name, one, repeat, lambda one=one, name=name: MEASURES[name].make(one, small))  # type: ignore[misc]
    page = "\n".join(results.tables())
    (out / "results.md").write_text(page, encoding="utf-8")
    typer.echo(f"\n{page}\nThese tables are {out / 'results.md'}.")


if __name__ == "__main__":
    typer.run(main)
