"""The table of a conversion of traces: what was written, struck out and dropped."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_conversion(out: Console, found: Mapping[str, Any]) -> None:
    """Print the content of dropped.json, with the first place of each reason."""
    table = Table("", box=None, pad_edge=False)
    table.add_column("number", justify="right")
    table.add_column("", overflow="fold")
    table.add_column("first at", overflow="fold")
    rows = [("read", number, what, "") for what, number in found["read"].items()]
    rows += [("written", number, name, "") for name, number in found["written"].items()]
    rows += [("struck out", number, f"texts with {what}", "") for what, number in found["struck"].items() if number]
    rows += [("dropped", one["count"], one["what"], one["places"][0]) for one in found["dropped"].values()]
    before = ""
    for kind, number, what, place in rows:
        table.add_row(kind if kind != before else "", f"{number:,}", Text(what), Text(place, style="dim"))
        before = kind
    out.print(table)
