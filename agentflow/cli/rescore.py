"""`agentflow eval rescore`: score stored answers again, without generating."""

import asyncio
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.report import read_folders
from agentflow.console.evaluations import print_rescored
from agentflow.console.progress import CountProgress
from agentflow.console.terminal import console, counted

if TYPE_CHECKING:
    from agentflow.evals.benchmarks.benchmark import Benchmark
    from agentflow.evals.runs import Run

app = typer.Typer()


@app.command(epilog="Example: agentflow eval rescore runs/bamboogle --judge openai:gpt-4o-mini")
def rescore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that --out of agentflow eval made.")],
    judge: Annotated[str, typer.Option(metavar="SPEC", help="Model that decides where the rule cannot.")] = "",
    benchmark: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Your own benchmark, as it was named to eval: a file or module:attribute."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without storing them.")] = False,
) -> None:
    """Score stored answers again, by mended rules or with a judge."""
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS
    from agentflow.evals.judge import cached_judge, judge_name
    from agentflow.evals.provenance import versions
    from agentflow.evals.rescore import rescore as score_again
    from agentflow.evals.results_store import store_scores

    [run] = read_folders([folder])
    benchmarks = _benchmarks(run, benchmark or [])
    with CountProgress(console(stderr=True), "scored again", len(run.records)) as progress:
        asked = cached_judge(judge) if judge else None
        after, failures = asyncio.run(score_again(run.records, benchmarks, asked, progress.add))
    if failures:
        say(f"note: the judge did not answer {len(failures)} times ({failures[0]}); run the same again")
    gated = {name for name in run.settings.benchmarks if name in BENCHMARKS and BENCHMARKS[name].gated}
    print_rescored(console(), run.records, after, gated)
    changed = [new for old, new in zip(run.records, after, strict=True) if new is not old]
    if dry_run or not changed:
        return
    made = run.settings.provenance[-1:]
    call = shlex.join(["agentflow", "eval", "rescore", str(folder), *(["--judge", judge] if judge else [])])
    now = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "call": call, "versions": versions()}
    again = [one.model_copy(update={**now, "before": len(run.records)}) for one in made]
    settings = {"judge": judge_name(judge) if judge else run.settings.judge}
    try:
        store_scores(folder, changed, settings | {"provenance": [*run.settings.provenance, *again]})
    except OSError as error:
        fail(f"the scores could not be written ({error.strerror}); make room and run the same again", FAILED)


def _benchmarks(run: "Run", names: list[str]) -> "dict[str, Benchmark]":
    """Return the benchmarks of a run by name. Ends the command if one cannot be loaded."""
    from agentflow.evals.benchmarks.catalogue import benchmark
    from agentflow.evals.benchmarks.errors import BenchmarkError

    try:
        own = {found.name: found for found in map(benchmark, names)}
        known = {(name, task.id) for name, found in own.items() for task in found.tasks()}
        changed = {one.key[:2] for one in run.records if one.benchmark in own} - known
        if changed:
            say(f"note: {counted(len(changed), 'question')} changed; scored as before; run agentflow eval to ask anew")
        return {name: own.get(name) or benchmark(name) for name in sorted({one.benchmark for one in run.records})}
    except BenchmarkError as error:
        fail(f"{error}; --benchmark names one of your own", MISUSED)
