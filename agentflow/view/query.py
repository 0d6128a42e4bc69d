"""Filters, order and pages of a list. They are applied on the server, so that little is sent."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from agentflow.view.rows import SHORT, Row
from agentflow.view.search import containing

Named = tuple[str, Row]
"""A row with its name in addresses."""

Listed = tuple[str, str, Row]
"""The id of a source, and the name and the row of a trace in it."""

Order = Literal["written", "question", "outcome", "turns", "seconds", "tokens", "reward"]

_VALUES: dict[str, Callable[[Row], Any]] = {
    "question": lambda row: row.question.casefold(),
    "outcome": lambda row: row.outcome,
    "turns": lambda row: row.turns,
    "seconds": lambda row: row.seconds,
    "tokens": lambda row: row.tokens,
    "reward": lambda row: -1.0 if row.reward is None else row.reward,
}


class Query(BaseModel):
    """Parameters of a list's address."""

    outcome: str = ""
    family: str = ""
    benchmark: str = ""
    tool: str = ""
    error: str = ""
    split: str = ""
    step: int | None = None
    text: str = Field(default="", max_length=1000)
    """Text that occurs anywhere in the trace, including turns."""
    order: Order = "written"
    down: bool = False
    """Descending order; for "written", the latest first."""
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=100, ge=1, le=500)


def select(rows: Sequence[Listed], query: Query) -> list[Listed]:
    """The rows that are asked for, all pages of them."""
    found = [listed for listed in rows if _matches(listed[1], listed[2], query)]
    if text := query.text.strip():
        found = _with_text(found, text)
    if query.order != "written":
        value = _VALUES[query.order]
        return sorted(found, key=lambda listed: value(listed[2]), reverse=query.down)
    return found[::-1] if query.down else found


def _matches(name: str, row: Row, query: Query) -> bool:
    if query.split and f"-{query.split}-" not in name:
        return False
    if query.step is not None and row.step != query.step:
        return False
    for wanted, given in ((query.outcome, row.outcome), (query.family, row.family), (query.benchmark, row.benchmark)):
        if wanted and wanted != given:
            return False
    return (not query.tool or query.tool in row.tools) and (not query.error or query.error in row.errors)


def _with_text(rows: Sequence[Listed], text: str) -> list[Listed]:
    lowered = text.casefold()
    found = [any(lowered in cell.casefold() for cell in (row.question, row.answer, row.gold)) for *_, row in rows]
    rest = [number for number, known in enumerate(found) if not known]
    for number, known in zip(rest, containing([rows[number][2].place for number in rest], text), strict=True):
        found[number] = known
    return [listed for listed, known in zip(rows, found, strict=True) if known]


def choices(rows: Sequence[Named]) -> dict[str, list[tuple[str, int]]]:
    """Return the values of each filter with their numbers of rows."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("outcome", "family", "benchmark", "tool", "error")}
    for _, row in rows:
        counts["outcome"][row.outcome] += 1
        counts["family"][row.family] += 1
        counts["benchmark"][row.benchmark] += 1
        counts["tool"].update({tool for tool in row.tools if tool})
        counts["error"].update({error for error in row.errors if error})
    return {
        name: [(value, number) for value, number in count.most_common(100) if value] for name, count in counts.items()
    }


def cells(name: str, row: Row) -> dict[str, Any]:
    """Return a row in the page's format."""
    return {
        "id": name,
        "task": row.task,
        "outcome": row.outcome,
        "question": row.question[:SHORT],
        "answer": row.answer,
        "gold": row.gold[:SHORT],
        "family": row.family,
        "benchmark": row.benchmark,
        "turns": row.turns,
        "seconds": row.seconds,
        "tokens": row.tokens,
        "tools": row.tools,
        "errors": row.errors,
        "step": row.step,
        "reward": row.reward,
        "sample": row.sample,
    }
