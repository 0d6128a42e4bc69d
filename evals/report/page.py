"""A report as one self-contained HTML file: figures, and every trace with its turns, filtered in the browser.

- *Text is data.* Text is stored as JSON and inserted only as text. The page's content security policy allows only its
  own script and style, by their hashes, no requests, and no conversion of strings to markup (Trusted Types).
- *Compact.* The rows for filters are columns of numbers; texts are lines of JSON in parts of `PART` traces. Both are
  gzip in base64. The browser unpacks texts only when they are shown or searched.
- *Bounded.* Once the page has reached its size limit, further traces have a row but no texts, and the page states it.
  Traces are ordered by task, each with all its runs and samples, so that traces with texts can be compared.
- *Gated benchmarks* have rows only, because turns repeat the question and answers may repeat the gold answer.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from string import Template
from typing import Any

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.passport.audit import Flag
from agentflow.evals.passport.passport import Passport, passport
from agentflow.evals.record import Record
from agentflow.evals.report.paper import paper
from agentflow.evals.results_store import collection_paused
from agentflow.evals.runs import Run, tool_name
from agentflow.evals.statistics import Comparison, compare, holm
from agentflow.evals.trace import TraceTurn
from agentflow.version import __version__

PAGE_BYTES = 4_900_000
"""Default size limit of a page in bytes."""
PART = 128
"""Traces whose texts are unpacked together."""
_LISTED = {"scores": {"__all__": {"audit": {"items"}}}}
"""Fields that the summary omits from a passport, because the rows contain them."""
TEXT, SHORT = 4000, 160
"""Most characters of a text, and of a text in a row."""


@dataclass(frozen=True)
class Page:
    """A report as HTML."""

    html: str
    traces: int
    with_text: int
    """Traces whose texts are included."""
    gated: int
    """Traces whose texts are omitted because their benchmark is gated."""


class Names:
    """A list of distinct names, in which each has a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        """Return the number of `name`; a new name gets the next number."""
        return self._numbers.setdefault(name, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


@collection_paused()
def page(runs: Sequence[Run], *, with_gated: bool = False, limit: int = PAGE_BYTES) -> Page:
    """Return the report on `runs`, of at most `limit` bytes unless the rows alone take more."""
    hidden = frozenset() if with_gated else frozenset(name for name, one in BENCHMARKS.items() if one.gated)
    traces = _in_turn(runs)
    passports = [passport(run) for run in runs]
    rows, summary = _rows(passports, traces, hidden), _summary(runs, passports)
    shown = [(position, record) for position, (_, record) in enumerate(traces) if record.benchmark not in hidden]
    room = limit - len(rows) - len(summary) - 60_000  # reserved for the page's markup, style and script
    parts, kept = _parts(shown, room)
    html = _html(
        summary=summary.replace("<", "\\u003c"),
        rows=rows,
        parts="\n".join(f'<script type="text/plain" class="part">{part}</script>' for part in parts),
        kept=json.dumps({"shown": kept, "part": PART, "hidden": sorted(hidden)}),
    )
    return Page(html, len(traces), kept, len(traces) - len(shown))


def _in_turn(runs: Sequence[Run]) -> list[tuple[int, Record]]:
    """Return every record with the number of its run, ordered by task in order of first appearance, run and sample."""
    order = Names()
    for run in runs:
        for record in run.records:
            order(f"{record.benchmark} {record.task.id}")
    found = [(number, record) for number, run in enumerate(runs) for record in run.records]
    return sorted(found, key=lambda one: (order(f"{one[1].benchmark} {one[1].task.id}"), one[0], one[1].sample))


def _summary(runs: Sequence[Run], passports: Sequence[Passport]) -> str:
    """Return the data of tables and charts as JSON."""
    cells = [{**asdict(cell), "error_rate": cell.error_rate, "most": cell.most} for run in runs for cell in run.cells]
    settings = [
        {"name": run.name, "planner": run.planner, "agent": run.settings.agent, "subset": run.settings.subset}
        | {"judge": run.settings.judge, "max_turns": run.settings.context.max_turns}
        for run in runs
    ]
    return json.dumps(
        {
            "version": __version__,
            "runs": settings,
            "cells": cells,
            "families": [asdict(family) for run in runs for family in run.families],
            "passports": [one.model_dump(mode="json", exclude=_LISTED) for one in passports],
            "differences": list(_differences(runs)),
            "paper": paper().model_dump(),
        }
    )


def _differences(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield a comparison of every run with the first run of the same benchmark, on the tasks that both have.

    The p-values are corrected for the number of comparisons (Holm).
    """
    first: dict[str, Run] = {}
    pairs, compared = list[tuple[str, Run, Run]](), list[Comparison]()
    for run in runs:
        for cell in run.cells:
            base = first.setdefault(cell.benchmark, run)
            before, after = base.tries(cell.benchmark), run.tries(cell.benchmark)
            if base is not run and before.keys() & after.keys():
                pairs.append((cell.benchmark, base, run))
                compared.append(compare(before, after))
    for (benchmark, base, run), found in zip(pairs, holm(compared), strict=True):
        yield {
            "benchmark": benchmark,
            "first": base.name,
            "second": run.name,
            "verdict": found.verdict(base.name, run.name),
            "shown": found.shown,
            "accuracies": [found.first, found.second],
            "questions": found.questions,
            "p_value": found.p_value,
            "corrected": found.corrected,
            "among": found.among,
        }


def _rows(passports: Sequence[Passport], traces: Sequence[tuple[int, Record]], hidden: frozenset[str]) -> str:
    """Return the packed data of the list and its filters: names by number, and one column per field of a trace."""
    names = {name: Names() for name in ("benchmark", "family", "outcome", "status", "tool", "error", "flag", "why")}
    flagged = _flagged(passports)
    questions: dict[tuple[str, str], tuple[int, list[str]]] = {}
    rows = []
    for run, record in traces:
        secret = record.benchmark in hidden
        asked = ["", ""] if secret else [_cut(record.task.question, 2 * SHORT), _cut(record.task.gold, SHORT)]
        number, _ = questions.setdefault((record.benchmark, record.task.id), (len(questions), [record.task.id, *asked]))
        answer = "" if secret else _cut(record.answer, SHORT)
        flags = flagged.get((run, *record.key), [])
        rows.append({"run": run, "question": number, "answer": answer, **_row(record, names, flags)})
    return _packed(
        _json(
            {
                "columns": {name: [row[name] for row in rows] for name in (rows[0] if rows else ())},
                "questions": [asked for _, asked in questions.values()],
                "names": {name: list(found) for name, found in names.items()},
            }
        )
    )


def _flagged(passports: Sequence[Passport]) -> dict[tuple[int, str, str, int], list[Flag]]:
    """Return the audit's flags by number of the run, benchmark, id of the task and sample."""
    return {
        (run, score.benchmark, item.id, item.sample): item.flags
        for run, one in enumerate(passports)
        for score in one.scores
        for item in score.audit.items
    }


def _row(record: Record, names: Mapping[str, Names], flags: Sequence[Flag]) -> dict[str, Any]:
    turns = [(tool_name(turn.tool, turn.result.error), turn.result.error) for turn in record.turns]
    return {
        "benchmark": names["benchmark"](record.benchmark),
        "family": names["family"](record.task.family),
        "outcome": names["outcome"]("failed" if record.failed else str(record.decision)),
        "status": names["status"](record.status),
        "sample": record.sample,
        "turns": len(turns),
        "tools": sorted({names["tool"](tool) for tool, _ in turns}),
        "errors": sorted({names["error"](error.value) for _, error in turns if error}),
        "flags": sorted({names["flag"](flag.reason.value) for flag in flags}),
        "why": [names["why"](str(flag)) for flag in flags],
        "seconds": round(record.seconds, 1),
        "tokens": record.usage.total_tokens,
    }


def _parts(shown: Sequence[tuple[int, Record]], room: int) -> tuple[list[str], int]:
    """Return the packed texts of as many traces as fit into `room` bytes, in parts, and the number of these traces."""
    parts, kept = [], 0
    for start in range(0, len(shown), PART):
        some = shown[start : start + PART]
        part = _packed(b"\n".join(_text(position, record) for position, record in some))
        room -= len(part) + 60  # the HTML element around it
        if room < 0:
            break
        parts.append(part)
        kept += len(some)
    return parts, kept


def _text(position: int, record: Record) -> bytes:
    """Return the texts of a trace as one line of JSON. It uses lists, so that a search does not match field names."""
    turns = [_turn(turn) for turn in record.turns]
    task = record.task
    texts = [task.question, task.gold, record.answer, record.analysis, record.error, record.decided_by]
    return _json([position, *map(_cut, texts), record.metrics, turns])


def _turn(turn: TraceTurn) -> list[Any]:
    result = turn.result
    code = turn.arguments.get("code") if set(turn.arguments) == {"code"} else None
    call = code if isinstance(code, str) else json.dumps(turn.arguments, ensure_ascii=False, default=str)
    texts = [turn.sub_goal, turn.context, turn.tool, call, result.output]
    judged = [_cut(turn.verdict.analysis), turn.verdict.signal]
    return [*map(_cut, texts), result.error, round(result.seconds, 2), *judged, _cut(turn.plan)]


def _cut(text: str, length: int = TEXT) -> str:
    return text if len(text) <= length else f"{text[:length]} [... {len(text) - length:,} characters cut ...]"


def _json(value: Any) -> bytes:
    """Return JSON in UTF-8, with a question mark for a lone surrogate, which UTF-8 cannot encode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def _html(**content: str) -> str:
    page, style, script = ((files(__package__) / f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    hashes = {f"{name}_hash": _hash(text) for name, text in (("style", style), ("script", script))}
    return Template(page).substitute(style=style, script=script, **hashes, **content)


def _hash(text: str) -> str:
    """Return the hash source of an inline element for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
