"""Tables of the changes made by rescoring."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import SHORT, counted
from agentflow.tools.redaction import cut
from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.evals.record import Record

_SHOWN = 20


def print_rescored(out: Console, before: "Sequence[Record]", after: "Sequence[Record]", gated: Collection[str]) -> None:
    """Print counts of decisions before and after, and the changes; without answers for benchmarks in `gated`."""
    table = Table("benchmark", box=None, pad_edge=False)
    for heading in ("tries", "correct before", "after", "undecided before", "after", "changed"):
        table.add_column(heading, justify="right")
    for name in dict.fromkeys(record.benchmark for record in before):
        pairs = [(one, other) for one, other in zip(before, after, strict=True) if one.benchmark == name]
        figures = (_count(pairs, 0, "correct"), _count(pairs, 1, "correct"))
        undecided = (_count(pairs, 0, "undecided"), _count(pairs, 1, "undecided"))
        changed = sum(one.decision != other.decision for one, other in pairs)
        table.add_row(Text(one_line(name)), *map(str, (len(pairs), *figures, *undecided, changed)))
    out.print(table)
    changes = [(one, other) for one, other in zip(before, after, strict=True) if one.decision != other.decision]
    for one, other in changes[:_SHOWN]:
        out.print(Text(_change(one, other, quiet=one.benchmark in gated)))
    if len(changes) > _SHOWN:
        out.print(Text(f"... and {counted(len(changes) - _SHOWN, 'other change')}"))


def _count(pairs: "Sequence[tuple[Record, Record]]", side: int, decision: str) -> int:
    return sum(pair[side].decision == decision for pair in pairs)


def _change(one: "Record", other: "Record", *, quiet: bool) -> str:
    line = f"{one.task.id}/{one.sample}  {one.decision} ({one.decided_by}) -> {other.decision} ({other.decided_by})"
    texts = "" if quiet else f"  {cut(one_line(one.task.gold), SHORT)} | {cut(one_line(one.answer[-SHORT:]), SHORT)}"
    return one_line(line + texts)
