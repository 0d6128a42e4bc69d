"""`agentflow eval judge`: measure the accuracy of a judge."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail
from agentflow.console.evaluations import print_calibration
from agentflow.console.terminal import console

app = typer.Typer()


@app.command("judge", epilog="Example: agentflow eval judge openai:gpt-4o-mini")
def judge(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="The model that judges.")],
    rows: Annotated[
        Path | None, typer.Option(help="Answers of your own: a file with kind, question, gold, answer and correct.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many answers; without it, all.")] = None,
) -> None:
    """Measure a judge on answers whose correctness is known."""
    from agentflow.evals.benchmarks.errors import BenchmarkError
    from agentflow.evals.calibration import ROWS, calibrate, read_calibration
    from agentflow.evals.judge import PROMPT, Judge, prompt_hash
    from agentflow.graph.models.loading import load_model
    from agentflow.graph.models.spec import ModelError

    try:
        asked = read_calibration(rows or ROWS)[:limit]
        load_model(spec)
    except BenchmarkError as error:
        fail(str(error), MISUSED)
    except ModelError as error:
        fail(str(error), MISUSED if error.configuration else FAILED)
    try:
        with console(stderr=True).status(f"{len(asked)} answers are judged"):
            found = asyncio.run(calibrate(Judge(spec), asked))
    except ModelError as error:
        fail(str(error), MISUSED if error.configuration else FAILED)
    print_calibration(console(), found, prompt_hash(PROMPT))
