"""`agentflow eval rescore`: score stored answers again, without generating."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.report import read_folders
from agentflow.console.progress import CountProgress
from agentflow.console.rescored import print_rescored
from agentflow.console.terminal import console

if TYPE_CHECKING:
    from agentflow.evals.benchmarks.benchmark import Benchmark
    from agentflow.evals.record import Key, Record
    from agentflow.evals.rulings import Ruling
    from agentflow.evals.runs import Run

app = typer.Typer()


@app.command(epilog="Example: agentflow eval rescore runs/bamboogle --judge openai:gpt-4o-mini")
def rescore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that --out of agentflow eval made.")],
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="Model that decides where the rule cannot; of several, the majority."),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Your own benchmark, as it was named to eval: a file or module:attribute."),
    ] = None,
    correct: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Your word: correct. ID, or with several epochs ID/TRY, from 1."),
    ] = None,
    incorrect: Annotated[list[str] | None, typer.Option(metavar="ID", help="Your word: incorrect.")] = None,
    by: Annotated[str, typer.Option(help="Whose word it is.")] = "",
    why: Annotated[str, typer.Option(help="The reason.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without storing them.")] = False,
) -> None:
    """Score stored answers again, with changed rules or judges; every decision is kept."""
    from agentflow.evals.results_store import ResultsError, rule

    [run] = read_folders([folder])
    words = {**dict.fromkeys(correct or (), True), **dict.fromkeys(incorrect or (), False)}
    new = _corrected(run, words, by.strip(), why.strip()) if words else _rescored(run, judge or [], benchmark or [])
    after = _ruled(run, new)
    print_rescored(console(), run.records, after, gated=_gated(run))
    if new and not dry_run:
        try:
            rule(folder, new)
        except ResultsError as error:
            fail(str(error), MISUSED)
        except OSError as error:
            fail(f"the rulings could not be written ({error.strerror}); make room and run the same again", FAILED)


def _gated(run: "Run") -> set[str]:
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS

    return {name for name in run.settings.benchmarks if name in BENCHMARKS and BENCHMARKS[name].gated}


def _rescored(run: "Run", judges: list[str], names: list[str]) -> "list[Ruling]":
    from agentflow.evals.judge import cached_judge, judge_name
    from agentflow.evals.rescore import Rescorer
    from agentflow.graph.models.spec import ModelError

    benchmarks = _benchmarks(run, names)
    try:
        asked = {judge_name(spec): cached_judge(spec) for spec in judges}
    except ModelError as error:
        fail(str(error), MISUSED)
    rescorer = Rescorer(benchmarks, asked, run.settings.judge, datetime.now(UTC))
    with CountProgress(console(stderr=True), len(run.records), "scored again") as progress:
        try:
            new = asyncio.run(rescorer.run(run.records, progress.add))
        except ModelError as error:
            fail(str(error), MISUSED)
    if rescorer.failures:
        say(f"note: a judge did not answer {len(rescorer.failures)} times ({rescorer.failures[0]}); run the same again")
    return new


def _benchmarks(run: "Run", names: list[str]) -> "dict[str, Benchmark]":
    """Return the benchmarks of a run by name. Ends the command if one cannot be loaded."""
    from agentflow.evals.benchmarks.catalogue import benchmark
    from agentflow.evals.benchmarks.errors import BenchmarkError

    try:
        own = {found.name: found for found in map(benchmark, names)}
        return {name: own.get(name) or benchmark(name) for name in sorted({one.benchmark for one in run.records})}
    except BenchmarkError as error:
        fail(f"{error}; --benchmark names one of your own", MISUSED)


def _corrected(run: "Run", words: dict[str, bool], by: str, why: str) -> "list[Ruling]":
    """Return a person's rulings. Ends the command if one is invalid."""
    from agentflow.evals.rulings import PERSON, Ruling, answer_hash
    from agentflow.evals.scorers.score import Decision

    if not by or not why:
        fail("a correction needs --by NAME and --why REASON", MISUSED)
    new = []
    for name, correct in words.items():
        one = _named(run, name)
        new.append(
            Ruling(
                benchmark=one.benchmark,
                id=one.task.id,
                sample=one.sample,
                answer=answer_hash(one.answer),
                decision=Decision.CORRECT if correct else Decision.INCORRECT,
                decided_by=PERSON,
                by=by,
                why=why,
                at=datetime.now(UTC),
            )
        )
    return new


def _named(run: "Run", name: str) -> "Record":
    question, _, sample = name.partition("/")
    found = [one for one in run.records if one.task.id.startswith(question) and sample in ("", str(one.sample + 1))]
    if len(found) == 1 and question:
        return found[0]
    fail(f"{name} names {len(found)} tries, not one; write ID, or ID/TRY", MISUSED)


def _ruled(run: "Run", new: "list[Ruling]") -> "list[Record]":
    """Return the records with the new rulings applied."""
    later: dict[Key, list[Ruling]] = {}
    for ruling in new:
        later.setdefault((ruling.benchmark, ruling.id, ruling.sample), []).append(ruling)
    now, judge = datetime.now(UTC), run.settings.judge
    return [one.ruled(later[one.key], judge, now) if one.key in later else one for one in run.records]
