"""The terminal, and text as it may be shown there.

Whatever comes from a model, a tool or a server is untrusted: it is shown as plain text, never as markup, and without
the control characters by which it could rewrite or recolour the terminal (`one_line`).
"""

import sys

from rich.console import Console

from agentflow.tools.redaction import cut
from agentflow.tools.untrusted_text import one_line

SHORT = 160
"""Characters of text that has to fit into a line."""


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is. Characters that its encoding lacks become question marks."""
    stream = sys.stderr if stderr else sys.stdout
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="replace")
    shown = Console(file=stream, highlight=False, markup=False, emoji=False)
    # Lines that go into a file or a pipe are not broken at eighty columns.
    shown.soft_wrap = not shown.is_terminal
    return shown


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 turn", "2 turns"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_bytes(size: int) -> str:
    """A size as people read it: in kB below a megabyte."""
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f} %"


def shortened(text: str) -> str:
    """`one_line`, cut to SHORT characters."""
    return cut(one_line(text), SHORT + 4, " ...")
