"""Report of a training run: one self-contained HTML file without scripts.

It is generated from the run folder, so it can be written at any time, also while the run is in progress. The template
engine escapes all text, the model's output included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from agentflow.rl.token_inspector import terms, trajectories
from agentflow.rl.training_log import Line, TrainingLog

CHARTS = (
    ("Reward and accuracy", "reward", "accuracy"),
    ("Turns", "turns", "turns"),
    ("Tool-call error rate", "tool_error_rate", "tool_error_rate"),
    ("KL to the reference", "kl", ""),
    ("Clipped share", "clip_fraction", ""),
    ("Sampled tokens per second", "tokens_per_second", ""),
)
"""Title, training metric and validation metric of each chart; "" for no validation metric."""

LEFT, RIGHT, TOP, BOTTOM = 46.0, 350.0, 10.0, 158.0
"""Edges of a chart's plot area, in units of its view box."""

PAIRS = 24
"""Number of questions whose rollouts are shown before and after training."""


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    points: str
    """Value of the SVG attribute `points`."""
    dots: list[tuple[float, float]]


@dataclass(frozen=True)
class Tick:
    """A grid line of a chart."""

    y: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Chart of a metric by step."""

    title: str
    first: int
    last: int
    ticks: list[Tick]
    series: list[Series]


def write_report(out: Path, settings: dict[str, Any]) -> Path:
    """Write report.html into the run folder; returns its path."""
    log = TrainingLog(out)
    lines = log.lines()
    validations = [line for line in lines if line["split"] == "test"]
    before, after = (validations[0], validations[-1]) if len(validations) > 1 else (None, None)
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    html = templates.get_template("report.html.j2").render(
        **settings,
        charts=[chart for title, *names in CHARTS if (chart := _chart(title, lines, names))],
        before=before,
        after=after,
        tools=_compared(before, after, "tools"),
        errors=_compared(before, after, "errors"),
        pairs=_pairs(log, before, after),
        looked_at=_looked_at(log),
    )
    path = out / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


def _chart(title: str, lines: Sequence[Line], names: Sequence[str]) -> Chart | None:
    """Build the chart of a metric; None if no line has it."""
    found = [
        (split, [(line["step"], line[name]) for line in lines if line["split"] == split and name in line])
        for split, name in zip(("train", "test"), names, strict=True)
    ]
    points = [point for _, series in found for point in series]
    if not points:
        return None
    first, last = min(step for step, _ in points), max(step for step, _ in points)
    low, high = min(0.0, *(value for _, value in points)), max(value for _, value in points)
    high = high if high > low else low + 1

    def place(step: int, value: float) -> tuple[float, float]:
        x = LEFT + (RIGHT - LEFT) * (step - first) / max(last - first, 1)
        return round(x, 1), round(BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low), 1)

    ticks = [Tick(place(first, value)[1], f"{value:.3g}") for value in (low, (low + high) / 2, high)]
    series = [_series(split, [place(*point) for point in values]) for split, values in found if values]
    return Chart(title, first, last, ticks, series)


def _series(name: str, places: list[tuple[float, float]]) -> Series:
    return Series(name, " ".join(f"{x},{y}" for x, y in places), places if name == "test" else [])


def _compared(before: Line | None, after: Line | None, name: str) -> list[tuple[str, tuple[str, str]]]:
    """Return the shares of tools or errors before and after training."""
    if before is None or after is None:
        return []
    return [
        (key, (_share(key, before[name]), _share(key, after[name]))) for key in sorted({*before[name], *after[name]})
    ]


def _share(key: str, counts: dict[str, int]) -> str:
    return f"{100 * counts.get(key, 0) / max(sum(counts.values()), 1):.0f} % ({counts.get(key, 0)})"


def _pairs(log: TrainingLog, before: Line | None, after: Line | None) -> list[dict[str, Any]]:
    """Return the first rollout of each of the first PAIRS questions, before and after training."""
    if before is None or after is None:
        return []
    earlier, later = (
        {record.task.id: record for record in reversed(log.records(line["step"], "test"))} for line in (before, after)
    )
    both = [task for task in sorted(earlier, key=_number) if task in later][:PAIRS]
    return [{"question": earlier[task].task.question, "before": earlier[task], "after": later[task]} for task in both]


def _looked_at(log: TrainingLog) -> dict[str, Any] | None:
    """Return the tokens of one group of the last step that recorded tokens."""
    if (step := log.last_tokens()) is None or not step.tasks:
        return None
    task = step.tasks[0]
    questions = (record.task.question for record in log.records(step.step, "train") if record.task.id == task)
    found = {"step": step.step, "question": next(questions, task), "terms": terms(step)}
    return {**found, "trajectories": trajectories(step, task)}


def _number(task: str) -> tuple[int, str]:
    """Sort key that orders task ids by the number in them."""
    digits = "".join(character for character in task if character.isdigit())
    return int(digits or 0), task
