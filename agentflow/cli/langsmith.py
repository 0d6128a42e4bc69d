"""`agentflow eval langsmith`: export evaluations as LangSmith datasets and experiments."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.cli.report import Folders, read_folders

app = typer.Typer()

KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")


@app.command(epilog="Example: agentflow eval langsmith runs/seed runs/trained --out langsmith")
def langsmith(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder of the files.")] = Path("langsmith"),
    upload: Annotated[bool, typer.Option("--upload", help="Send them too; needs LANGSMITH_API_KEY.")] = False,
    with_gated: Annotated[
        bool, typer.Option("--with-gated", help="Also GPQA and GAIA, whose terms forbid passing them on.")
    ] = False,
) -> None:
    """Write datasets and experiments for LangSmith; --upload also sends them."""
    from agentflow.evals import langsmith_export as export
    from agentflow.evals.benchmarks.catalogue import BENCHMARKS

    if upload and not any(os.environ.get(name, "").strip() for name in KEYS):
        fail("--upload needs a key; set LANGSMITH_API_KEY, or leave out --upload to write the files only", MISUSED)
    runs = read_folders(folders)
    names = list(dict.fromkeys(cell.benchmark for run in runs for cell in run.cells))
    if gated := [name for name in names if name in BENCHMARKS and BENCHMARKS[name].gated and not with_gated]:
        say(f"note: {', '.join(gated)}: left out, since it is gated; see --with-gated")
    ended = datetime.fromtimestamp(max((folder / "traces.jsonl").stat().st_mtime for folder in folders), UTC)
    try:
        written = export.write(out, runs, [name for name in names if name not in gated], ended)
    except OSError as error:
        fail(f"{error.filename or out} could not be written ({error.strerror}); choose another --out", FAILED)
    for folder in written:
        experiments = sorted(path.parent.name for path in folder.glob("*/experiment.json"))
        typer.echo(f"{folder}: dataset, examples, and an experiment for each of {', '.join(experiments)}")
    if upload:
        _upload(written)


def _upload(written: list[Path]) -> None:
    from langsmith import Client

    from agentflow.evals.langsmith_export import UploadError
    from agentflow.evals.langsmith_export import upload as send

    client = Client(auto_batch_tracing=False, tracing_sampling_rate=1.0)
    try:
        for folder in written:
            send(folder, client, typer.echo)
    except UploadError as error:
        fail(f"{error}; what was sent before stays there", FAILED)
