"""`agentflow data`: download benchmarks, and make training data of traces."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail, say
from agentflow.console.evaluations import print_benchmarks
from agentflow.console.terminal import console

app = typer.Typer(cls=CommandGroup)


@app.callback(invoke_without_command=True)
def data_sets(ctx: typer.Context) -> None:
    """Download the benchmarks, and make training data of traces."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command("from-traces", epilog="Example: agentflow data from-traces spans.jsonl --out tasks")
def from_traces(
    source: Annotated[Path, typer.Argument(help="A run folder, an OTLP file, a LangSmith export, or rows of chat.")],
    out: Annotated[Path, typer.Option(help="Folder of tasks.jsonl, sft.jsonl and others.")] = Path("tasks"),
    format: Annotated[
        Literal["auto", "evaluation", "training", "otel", "langsmith", "chat"],
        typer.Option(help="Format of the source."),
    ] = "auto",
    min_reward: Annotated[float, typer.Option(min=0, max=1, help="Lowest reward of an accepted run.")] = 1.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Most questions.")] = None,
) -> None:
    """Make tasks and supervised data of runs that were recorded, without secrets and personal data."""
    from agentflow.evals.run_folder import RunFolderError
    from agentflow.rl.traces.convert import convert
    from agentflow.rl.traces.episode import TracesError

    chosen = "" if format == "auto" else format
    try:
        written, dropped = convert(source, out, format=chosen, min_reward=min_reward, limit=limit)
    except (RunFolderError, TracesError) as error:
        fail(str(error), MISUSED)
    except OSError as error:
        fail(f"{error.filename or out} cannot be used ({error.strerror}); choose another --out", FAILED)
    for name, number in written.items():
        typer.echo(f"{number:,} in {out / name}")
    for reason, places in dropped.items():
        typer.echo(f"{len(places):,} dropped: {reason}, first at {places[0]}")
    if not written:
        fail(f"nothing in {source} could be used", MISUSED)


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
