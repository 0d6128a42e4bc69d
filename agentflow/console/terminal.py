"""The terminal, and formatting of text for it.

Text from a model, a tool or a server is untrusted. It is shown as plain text, never as markup, and without the control
characters that could rewrite or recolour the terminal (`one_line`).
"""

import json
import sys
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.tools.redaction import cut
from agentflow.tools.untrusted_text import one_line

SHORT = 160
"""Largest number of characters of a text shown on one line."""


def console(*, stderr: bool = False) -> Console:
    """Return a console without markup. Characters missing from its encoding become question marks."""
    stream = sys.stderr if stderr else sys.stdout
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="replace")
    shown = Console(file=stream, highlight=False, markup=False, emoji=False)
    # Lines written to a file or a pipe are not wrapped at 80 columns.
    shown.soft_wrap = not shown.is_terminal
    return shown


def print_json(data: object) -> None:
    """Print data of models, dataclasses and plain types as one line of JSON in ASCII, which steers no terminal."""
    from pydantic_core import to_jsonable_python

    typer.echo(json.dumps(to_jsonable_python(data)))


def table(*names: str, figures: Sequence[str] = ()) -> Table:
    """Return a table without lines: columns of text by `names`, then those of `figures`, aligned to the right."""
    found = Table(*names, box=None, pad_edge=False)
    for heading in figures:
        found.add_column(Text(one_line(heading)), justify="right")
    return found


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: "1 turn", "2 turns"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Format a share from 0 to 1 as a percentage."""
    return f"{100 * share:.1f} %"


def shortened(text: str) -> str:
    """Return `one_line` of the text, cut to SHORT characters."""
    return cut(one_line(text), SHORT + 4, " ...")
