"""Reports: the viewer's page as a file, with the data of evaluations or of a training inside.

- *Compact.* The rows of lists are columns, in which a value that repeats is a number; texts are lines of JSON in parts
  of `PART` traces, which the page unpacks only when they are shown or searched.
- *Bounded.* Once the file has reached its size limit, further traces have a row but no texts, and the page states it.
  Texts of evaluations go in task by task, each with all its runs and samples, so that these can be compared.
- *Gated benchmarks* have rows only, without texts, because turns repeat the question and answers may repeat the gold
  answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.report.summary import summary
from agentflow.evals.runs import Run, tool_name
from agentflow.graph.run.garbage import rarely_collected
from agentflow.rl.apps.trainable import Split
from agentflow.version import __version__
from agentflow.view.about import about, name_flagged, step_groups
from agentflow.view.detail import detail, scored
from agentflow.view.groups import tokens
from agentflow.view.lines import Place
from agentflow.view.query import Named, cells, choices
from agentflow.view.rows import record_row
from agentflow.view.single_file import as_json, packed, single_file
from agentflow.view.sources import Training, evaluation_facts

BYTES = 4_900_000
"""Default size limit of a file in bytes."""
PART = 128
"""Traces whose texts are unpacked together."""
TEXT = 4000
"""Most characters of a text."""

_NOWHERE = Place(Path(), 0, 0)


@dataclass(frozen=True)
class Export:
    """A report as HTML."""

    html: str
    traces: int
    with_text: int
    """Traces whose texts are included."""
    gated: int
    """Traces whose texts are omitted because their benchmark is gated."""


@dataclass(frozen=True)
class _Listed:
    """A trace of a report."""

    source: str
    named: Named
    rank: tuple[int, ...]
    """Order in which texts are included, as long as there is room."""
    texts: Callable[[], dict[str, Any]] | None
    """Makes the texts, as `detail` returns them; None for a gated benchmark."""


@rarely_collected()
def evaluations(runs: Sequence[Run], *, with_gated: bool = False, limit: int = BYTES) -> Export:
    """Return the report on `runs`, of at most `limit` bytes unless the rows alone take more."""
    hidden = frozenset() if with_gated else frozenset(name for name, one in BENCHMARKS.items() if one.gated)
    report = summary(runs)
    tasks: dict[tuple[str, str], int] = {}
    sources, traces = {}, list[_Listed]()
    for number, (run, audits) in enumerate(zip(runs, report["audits"], strict=True)):
        id, own = str(number), _listed(number, run, audits, hidden, tasks)
        facts = evaluation_facts(run.settings, [trace.named[1] for trace in own])
        known = {"id": id, "kind": "evaluation", "name": run.name, "choices": choices([one.named for one in own])}
        sources[id] = {**known, **facts}
        report["runs"][number]["id"] = id
        traces += own
    report["choices"] = choices([trace.named for trace in traces])
    data = {"home": f"#/report/{','.join(sources)}", "sources": sources, "report": report, "hidden": sorted(hidden)}
    return _export(data, traces, limit)


def _listed(
    number: int, run: Run, audits: Sequence[dict[str, Any]], hidden: frozenset[str], tasks: dict[tuple[str, str], int]
) -> list[_Listed]:
    """Return the traces of a run in written order; `tasks` numbers tasks by first appearance in any run."""
    named = [(str(at), record_row(record, _NOWHERE)) for at, record in enumerate(run.records)]
    flags, found = name_flagged(audits, named), []
    for (name, row), record in zip(named, run.records, strict=True):
        rank = (tasks.setdefault((record.benchmark, record.task.id), len(tasks)), number, record.sample)
        texts = partial(scored, record, run.settings, run.settings.context.max_turns, flags.get(name, []))
        if record.benchmark in hidden:
            tools = tuple(tool_name(turn.tool, turn.result.error) for turn in record.turns)
            row = replace(row, question="", gold="", answer="", tools=tools)
            found.append(_Listed(str(number), (name, row), rank, None))
        else:
            found.append(_Listed(str(number), (name, row), rank, texts))
    return found


@rarely_collected()
def training(folder: Path, *, limit: int = BYTES) -> Export:
    """Return the report on the training in `folder`: its curves, its validations, and the groups of one step.

    The step is the last one whose tokens were recorded, or else the last one.
    """
    source = Training(folder, folder.name)
    while source.refresh()[1]:
        pass
    trained, tested = source.steps("train"), source.steps("test")
    with_tokens = (step for step in reversed(trained) if source.tokens(step, rows=False))
    shown = [*islice(with_tokens, 1)] or trained[-1:]
    first: list[tuple[int, Split]] = [(step, "test") for step in (*tested[-1:], *tested[:1])]
    first += [(step, "train") for step in shown]
    order = {key: rank for rank, key in enumerate([*first, *((step, "test") for step in tested[1:-1])])}
    traces = [
        _Listed("0", named, (rank,), partial(detail, source, *named))
        for (step, split), rank in sorted(order.items())
        for named in source.of_step(step, split)
    ]
    page = {**about(source), "id": "0", "path": "", "live": False, "train_steps": shown}
    page["choices"] = choices([trace.named for trace in traces])
    groups = {str(step): {**step_groups(source, step), "steps": shown} for step in shown}
    found = {
        f"{step}/{number}": tokens(kept, task, source.of_step(step, "train"))
        for step in shown
        if (kept := source.tokens(step))
        for number, task in enumerate(kept.tasks)
    }
    data = {"home": "#/run/0", "sources": {"0": page}, "steps": groups, "tokens": found, "hidden": []}
    return _export(data, traces, limit)


def _export(data: dict[str, Any], traces: Sequence[_Listed], limit: int) -> Export:
    rows = [{"source": trace.source, **cells(*trace.named)} for trace in traces]
    columns = {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    facts = as_json({**data, "version": __version__, "part": PART, "rows": len(rows), "columns": columns})
    shown = sorted((number for number, trace in enumerate(traces) if trace.texts), key=lambda at: traces[at].rank)
    room = limit - len(single_file([packed(facts), packed(as_json(shown))]))
    parts = list[str]()
    for start in range(0, len(shown), PART):
        part = packed(b"\n".join(_line(traces[number]) for number in shown[start : start + PART]))
        room -= len(part) + 60  # the HTML element around it
        if room < 0:
            break
        parts.append(part)
    kept = shown[: len(parts) * PART]
    html = single_file([packed(facts), packed(as_json(kept)), *parts])
    return Export(html, len(traces), len(kept), len(traces) - len(shown))


def _column(values: list[Any]) -> dict[str, Any]:
    """Return the values, or where most repeat, the distinct ones and the number of each."""
    numbers: dict[Any, int] = {}
    at = [numbers.setdefault(value, len(numbers)) for value in values]
    return {"values": list(numbers), "at": at} if 2 * len(numbers) <= len(values) else {"values": values}


def _line(trace: _Listed) -> bytes:
    texts = trace.texts() if trace.texts else {}
    line = as_json(texts)
    return line if len(line) <= TEXT else as_json(_cut(texts))


def _cut(value: Any) -> Any:
    """Return JSON data with every text cut to `TEXT` characters."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else f"{value[:TEXT]} [... {len(value) - TEXT:,} characters cut ...]"
    if isinstance(value, dict):
        return {_cut(name): _cut(inside) for name, inside in value.items()}
    return [*map(_cut, value)] if isinstance(value, list | tuple) else value
