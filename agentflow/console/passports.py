"""The table of an evaluation's passport: scores, what they were made with, and the tries that the audit flagged."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import percent
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.evals.passport.passport import Passport

_SHOWN = 20
"""Largest number of flagged tries shown for a benchmark; --json lists all."""


def print_passport(out: Console, passport: "Passport") -> None:
    """Print a line for each fact. Long ones are folded, since a truncated hash is useless."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    rows: list[tuple[str, str]] = []
    for score in passport.scores:
        audit, n = score.audit, score.number if score.epochs == 1 else f"{score.questions} x {score.epochs}"
        shown = f"accuracy {score.accuracy:.3f} (95 % interval {score.low:.3f} to {score.high:.3f}, n = {n})"
        rows.append((score.benchmark, shown))
        flagged = (
            f"{audit.tries:,} of {score.number:,} tries ({percent(audit.share)}), {audit.correct:,} of them correct"
        )
        wrong = f"accuracy {audit.accuracy:.3f} ({audit.low:.3f} to {audit.high:.3f}) if these are wrong"
        rows.append(("flagged", f"{flagged}; {wrong}" if audit.tries else "none"))
        for item in audit.items[:_SHOWN]:
            rows.append(("", f"{item.id}, try {item.sample + 1}: {'; '.join(map(str, item.flags))}"))
        if (rest := len(audit.items) - _SHOWN) > 0:
            rows.append(("", f"... and {rest:,} more, which --json lists"))
    rows += [*passport.facts.items(), ("traces.jsonl", f"SHA-256 {passport.traces}")]
    rows += [("to repeat it", doubt) for doubt in passport.doubts or ["nothing is known that stands against it"]]
    for name, text in rows:
        table.add_row(Text(one_line(name)), Text(one_line(text)))
    out.print(table)
