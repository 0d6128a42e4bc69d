"""`agentflow eval`: accuracy, turns and tool-call errors on a benchmark."""

import asyncio
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.cli.options import MaxTurns, Model, Planner, SearchCache, context_of
from agentflow.console import EvalProgress, console, print_summary

if TYPE_CHECKING:
    from agentflow.evals.journal import Records

app = typer.Typer()


class Benchmark(StrEnum):
    """What `agentflow eval` can run."""

    ATLAS = "atlas"


class Split(StrEnum):
    """Which questions of a benchmark."""

    TEST = "test"
    TRAIN = "train"


@app.command("eval", epilog="Example: agentflow eval atlas --limit 50 --out runs/seed")
def evaluate(
    benchmark: Annotated[Benchmark, typer.Argument(help="The benchmark.")],
    limit: Annotated[int, typer.Option(min=1, help="How many questions.")] = 200,
    planner: Planner = None,
    model: Model = "embedded",
    max_turns: MaxTurns = 10,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions at a time.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the episodes; the same call goes on where it left.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Which questions.")] = Split.TEST,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="The planner's; the other modules stay at 0.")] = 0.0,
    samples: Annotated[
        int, typer.Option(min=1, max=64, help="Tries of each question; the accuracy is their mean.")
    ] = 1,
    search_cache: SearchCache = "off",
) -> None:
    """Measure accuracy, turns and tool-call errors on a benchmark."""
    from agentflow.evals import runner
    from agentflow.evals.atlas.items import items
    from agentflow.evals.metrics import interval, summarise
    from agentflow.graph.agent import graph
    from agentflow.graph.models import ModelError

    sampling = {"planner": {"temperature": temperature}} if temperature else {}
    limits = {"max_turns": max_turns, "search_cache": search_cache}
    context = context_of(model, planner, None, corpus="atlas", sampling=sampling, **limits)
    dataset = runner.sampled(items(split.value, limit), samples)
    settings = {"benchmark": benchmark.value, "split": split.value, **context.model_dump(mode="json")}
    with closing(_records(out, settings)) as records:
        remaining = runner.unfinished(dataset, records.by_id.values())
        left = {item.id for item in remaining}
        correct = sum(records.by_id[item.id].correct for item in dataset if item.id not in left)

        with EvalProgress(console(stderr=True), len(dataset), len(dataset) - len(left), correct) as progress:

            def on_end(record: runner.Record) -> None:
                records.add(record)
                progress.add(correct=record.correct)

            try:
                asyncio.run(runner.evaluate(graph, remaining, context, concurrency=concurrency, on_end=on_end))
            except ModelError as error:
                fail(str(error), MISUSED)
            except OSError as error:
                fail(f"the episodes could not be written ({error.strerror}); make room and run the same again", FAILED)
    summary = summarise(dataset, records.by_id)
    print_summary(console(), summary, interval(dataset, records.by_id))
    if summary.failures.total() == len(dataset):
        fail("every run failed, for the reasons above", FAILED)


def _records(out: Path | None, settings: dict[str, Any]) -> "Records":
    from agentflow.evals.journal import Journal, JournalError, Records

    try:
        return Journal(out, settings) if out else Records()
    except JournalError as error:
        fail(str(error), MISUSED)
