"""`agentflow data`: download benchmarks, and build the training set."""

from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail, say
from agentflow.console.checks import print_benchmarks
from agentflow.console.terminal import console

app = typer.Typer(cls=CommandGroup)


@app.callback(invoke_without_command=True)
def data_sets(ctx: typer.Context) -> None:
    """Download the benchmarks, and build the training set."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("train", epilog="Example: agentflow data train --out data")
def training_set(
    out: Annotated[Path, typer.Option(help="Folder of train.parquet and sources.json.")] = Path("data"),
) -> None:
    """Build the paper's training set, NQ and DeepMath, from the Hugging Face hub: 182,190 questions."""
    try:
        from agentflow.rl.training_set import TrainingSetError, build
    except ImportError as error:
        fail(f"needs {error.name}; install it with: pip install 'agentflow-langgraph[train]'", MISUSED)
    try:
        rows = build(out, typer.echo)
    except TrainingSetError as error:
        fail(str(error), FAILED)
    typer.echo(f"{rows:,} questions are in {out / 'train.parquet'}; their sources in {out / 'sources.json'}")


@app.command("get", epilog="Example: agentflow data get bamboogle")
def get_data(name: Annotated[str, typer.Argument(help="A benchmark, or all; see agentflow data list.")]) -> None:
    """Download a benchmark into the user's cache, or check the cached copy."""
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
    from agentflow.evals.benchmarks.errors import BenchmarkError, TokenNeeded

    try:
        wanted = list(BENCHMARKS.values()) if name == "all" else [benchmark(name)]
    except BenchmarkError as error:
        fail(str(error), MISUSED)
    code = 0
    for one in wanted:
        try:
            typer.echo(f"{one.name}: {one.get()}")
        except BenchmarkError as error:
            say(f"error: {error}")
            code = max(code, MISUSED if isinstance(error, TokenNeeded) else FAILED)
    raise typer.Exit(code)


@app.command("list", epilog="Example: agentflow data list")
def list_data() -> None:
    """List the benchmarks with their state, number of questions and licence."""
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS
    from agentflow.evals.benchmarks.errors import BenchmarkError

    try:
        rows = [(one.name, one.state(), f"{one.size:,}", one.licence, one.title) for one in BENCHMARKS.values()]
    except BenchmarkError as error:
        fail(str(error), MISUSED)
    print_benchmarks(console(), rows)
