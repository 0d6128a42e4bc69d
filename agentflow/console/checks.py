"""Tables of checks, tool trials and benchmarks."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.checks.check import Check, Trial
from agentflow.console.terminal import shortened
from agentflow.tools.untrusted_text import one_line


def print_checks(out: Console, checks: Iterable[Check]) -> None:
    """Print checks as a table of three columns: name, status, details."""
    colours = {"ok": "green", "no": "red", "-": "dim"}
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, works, says in checks:
        table.add_row(Text(one_line(what)), Text(works, style=colours[works]), Text(one_line(says), overflow="fold"))
    out.print(table)


def checks_data(checks: Iterable[Check]) -> dict[str, list[dict[str, str]]]:
    """Return checks as JSON data."""
    return {"checks": [{"name": what, "works": works, "says": says} for what, works, says in checks]}


def print_trials(out: Console, trials: Iterable[Trial]) -> None:
    """Print a line for each trial with its status, seconds and sandbox tier; the call and the result below it."""
    colours = {"ok": "green", "no": "red", "-": "dim"}
    for trial in trials:
        text = Text(f"{one_line(trial.name):<20} ").append(f"{trial.works:<3}", style=colours[trial.works])
        text.append("" if trial.seconds is None else f"{trial.seconds:6.2f} s  {trial.tier}")
        call = f"{shortened(trial.call)} → " if trial.call else ""
        out.print(text.append(f"\n  {call}{shortened(trial.says)}", style="default"))


def print_benchmarks(out: Console, rows: Iterable[tuple[str, str, str, str, str]]) -> None:
    """Print benchmarks as a table: name, state, number of questions, licence, title."""
    table = Table("name", "state", box=None, pad_edge=False)
    table.add_column("questions", justify="right")
    for heading in ("licence", "data set"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
