"""`agentflow eval again`: repeat an evaluation and compare the two."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import MISUSED, call, fail, say
from agentflow.cli.report import compare, read_folders

app = typer.Typer()


@app.command(epilog="Example: agentflow eval again runs/atlas --out runs/atlas-again")
def again(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of an evaluation, with its passport.")],
    out: Annotated[Path, typer.Option(help="Folder of the new one.")],
) -> None:
    """Run an evaluation again with the call in its passport, and compare the two question by question."""
    [before] = read_folders([folder])
    if not before.settings.provenance:
        fail(f"{folder} does not say what it was called with: an earlier version made it", MISUSED)
    if not before.settings.provenance[-1].call:
        fail(f"{folder} was made by agentflow.evaluate in Python; run that program again with another out", MISUSED)
    if out.resolve() == folder.resolve():
        fail("the new evaluation needs a folder of its own; choose another --out", MISUSED)
    words = [*_without_out(shlex.split(before.settings.provenance[-1].call)[2:]), "--out", str(out)]
    say(f"$ agentflow eval {shlex.join(words)}")
    call(ctx, ["eval", *words])
    [after] = read_folders([out])
    different = after.settings.provenance[-1].differences(before.settings.provenance[-1])
    say(f"note: made with other parts: {', '.join(different)}" if different else "note: made with the same parts")
    answers = {record.key: record.answer for record in before.records}
    common = [record for record in after.records if record.key in answers]
    alike = sum(record.answer == answers[record.key] for record in common)
    typer.echo(f"{alike:,} of {len(common):,} tries have the same answer")
    compare(folder, out, flips=True)


def _without_out(words: list[str]) -> list[str]:
    """Remove --out from a call, in either form: `--out PATH` or `--out=PATH`."""
    kept, skip = [], False
    for word in words:
        if not skip and word != "--out" and not word.startswith("--out="):
            kept.append(word)
        skip = word == "--out" and not skip
    return kept
