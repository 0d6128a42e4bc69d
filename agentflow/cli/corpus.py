"""`agentflow corpus`: build and query local encyclopedias for wikipedia_search."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, CommandGroup, fail
from agentflow.console.progress import BuildView
from agentflow.console.terminal import console
from agentflow.tools.untrusted_text import clean

app = typer.Typer(
    cls=CommandGroup, invoke_without_command=True, help="Build a local encyclopedia for wikipedia_search, and query it."
)


@app.command(epilog="Example: agentflow corpus build wikipedia.jsonl.gz --out wikipedia.sqlite")
def build(
    dump: Annotated[Path, typer.Argument(help="JSON lines with title and text (.jsonl, .jsonl.gz).")],
    out: Annotated[Path | None, typer.Option(help="The index; by default beside the dump, ending in .sqlite.")] = None,
) -> None:
    """Build a full-text index of a dump."""
    from agentflow.tools.encyclopedia.corpus import CorpusError
    from agentflow.tools.encyclopedia.corpus_build import build as build_index
    from agentflow.tools.encyclopedia.dumps import Dump

    start = time.monotonic()
    source = Dump(dump)
    index = out or dump.with_name(f"{dump.name.removesuffix('.gz').removesuffix('.jsonl') or 'corpus'}.sqlite")
    try:
        with BuildView(console(stderr=True)) as view:
            number = build_index(index, source.passages(), lambda so_far: view.show(so_far, source.done, source.total))
    except CorpusError as error:
        fail(str(error), MISUSED if error.code == "not_corpus" else FAILED)
    typer.echo(f"{number:,} passages are in {index} ({time.monotonic() - start:.0f} s)")
    typer.echo(f"next: agentflow solve ... --corpus {shlex.quote(str(index))}")


@app.command("look-up", epilog='Example: agentflow corpus look-up wikipedia.sqlite "Alan Turing"')
def look_up(
    corpus: Annotated[str, typer.Argument(help="As --corpus: an index's path, live, an address.")],
    name: Annotated[str, typer.Argument(help="Query for wikipedia_search, in quotes.")],
) -> None:
    """Show what wikipedia_search finds."""
    import asyncio

    from agentflow.tools.encyclopedia.choice import missing
    from agentflow.tools.run import run_tool
    from agentflow.tools.wikipedia_search import wikipedia_search

    if problem := missing(corpus):
        fail(problem, MISUSED)
    result = asyncio.run(run_tool(wikipedia_search(corpus), {"query": name}, 60))
    if result.error:
        fail(result.output, FAILED)
    typer.echo(clean(result.output))
    console(stderr=True).print(f"({1000 * result.seconds:.0f} ms)")
