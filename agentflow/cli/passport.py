"""`agentflow eval passport`: show what produced a score, what prevents repeating it, and its audit."""

from pathlib import Path
from typing import Annotated

import typer

from agentflow.cli.group import FAILED
from agentflow.cli.report import read_folders
from agentflow.console.passports import print_passport
from agentflow.console.terminal import console

app = typer.Typer()


@app.command(epilog="Example: agentflow eval passport runs/trained --strict")
def passport(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that --out of agentflow eval made.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a try is flagged.")] = False,
) -> None:
    """Show what produced a score, and flag tries that may have found the benchmark's answers."""
    from agentflow.evals.passport.passport import passport as passport_of

    [run] = read_folders([folder])
    found = passport_of(run)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_passport(console(), found)
    if strict and found.flagged:
        raise typer.Exit(FAILED)
