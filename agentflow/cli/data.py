"""`agentflow data`: download benchmarks, check files of questions, and make tasks of traces."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail, say
from agentflow.console.evaluations import print_benchmarks
from agentflow.console.terminal import console
from agentflow.tools.untrusted_text import bounded_line

app = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    help="Download the benchmarks, check files of questions, and make tasks of traces.",
)


@app.command("check", epilog="Example: agentflow data check quiz.jsonl")
def check_data(
    file: Annotated[Path, typer.Argument(help="A file of questions: JSON lines, JSON, CSV or Parquet.")],
    show: Annotated[int, typer.Option(min=0, help="Most questions, and most problems, to print.")] = 5,
) -> None:
    """Show what is read of a file of questions, how answers will be scored, and what is wrong with it."""
    from agentflow.evals.benchmarks.check import check

    with console(stderr=True).status(f"checking {file}"):
        found = check(file)
    for place, one in list(found.tasks.items())[:show]:
        typer.echo(f"{place}: {bounded_line(one.stem, 100)}\n  answer: {bounded_line(one.gold, 100)}")
        for letter, text in one.data.get("options", {}).items():
            typer.echo(f"  {letter}. {bounded_line(text, 100)}")
    typer.echo(f"{len(found.tasks):,} questions, {found.repeated:,} repeated")
    counted = [f"{number:,} {name}" for name, number in sorted(found.types.items())]
    typer.echo(f"answers: {', '.join(counted) or 'none'}")
    if found.unread:
        typer.echo(f"columns that are not read: {bounded_line(', '.join(found.unread), 200)}")
    for problem in found.problems[:show]:
        say(f"warning: {problem}")
    if more := len(found.problems[show:]):
        say(f"warning: {more:,} more")
    if not found.tasks:
        fail(f"nothing in {file} is a question", MISUSED)
    raise typer.Exit(FAILED if found.problems else 0)


@app.command("from-traces", epilog="Example: agentflow data from-traces spans.jsonl --out tasks")
def from_traces(
    source: Annotated[Path, typer.Argument(help="A run folder, an OTLP file, a LangSmith export, or rows of chat.")],
    out: Annotated[Path, typer.Option(help="Folder of tasks.jsonl and questions.jsonl.")] = Path("tasks"),
    format: Annotated[
        Literal["auto", "evaluation", "otel", "langsmith", "chat"],
        typer.Option(help="Format of the source."),
    ] = "auto",
    min_reward: Annotated[float, typer.Option(min=0, max=1, help="Lowest reward of an accepted answer.")] = 1.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Most questions.")] = None,
) -> None:
    """Make tasks of runs that were recorded, without secrets and personal data."""
    from agentflow.rl.traces.convert import convert

    chosen = "" if format == "auto" else format
    try:
        written, dropped = convert(source, out, format=chosen, min_reward=min_reward, limit=limit)
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

    wanted = list(BENCHMARKS.values()) if name == "all" else [benchmark(name)]
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

    rows = [(one.name, one.state(), f"{one.size:,}", one.licence, one.title) for one in BENCHMARKS.values()]
    print_benchmarks(console(), rows)
