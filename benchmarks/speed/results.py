"""Measurements, a line of JSON each, so that a stopped run can be resumed.

Each repeat covers all contenders before the next repeat begins. The reported value is the median of the repeats.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchmarks.speed.catalogue import NotMeasured, Role


class Line(BaseModel):
    """One measurement of one contender."""

    measure: str
    name: str
    """Name of the contender."""
    label: str
    role: Role
    repeat: int
    at: float = 0.0
    """Size of the work, if the measure is of growth."""
    version: str = ""
    values: dict[str, float] = {}
    """Values by name, in seconds, bytes or the measure's unit."""
    profile: dict[str, float] = {}
    """Share of the time by package."""
    error: str = ""
    """Reason for a missing measurement."""


@dataclass
class SpeedResults:
    """The lines of a file, including new ones."""

    path: Path
    repeats: int
    small: bool
    """True for a run with few rollouts, which only tests that everything works."""
    show: Callable[[str], None] = print
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.exists():
            whole = (line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
            self.lines = [Line.model_validate_json(line) for line in whole]
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def once(self, make: Callable[[], dict[str, Any]], **what: Any) -> None:
        """Measure and store, unless already done. `make` returns `values` and optionally other fields of the line."""
        key = (what["measure"], what["name"], what["repeat"], what.get("at", 0.0))
        if any((line.measure, line.name, line.repeat, line.at) == key and line.values for line in self.lines):
            return
        try:
            found: dict[str, Any] = make()
        except NotMeasured as error:
            found = {"error": str(error)}
        line = Line(**what, **found)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json(exclude_defaults=True) + "\n")
        self.lines.append(line)
        shown = line.error or "  ".join(f"{name} {value:.4g}" for name, value in line.values.items())
        self.show(f"{line.measure:<18}{line.label:<34}{f'{line.at:g}' if line.at else '':<8}{shown}")

    def of(self, measure: str, name: str = "") -> list[Line]:
        """Return the lines of a measure, optionally of one contender."""
        return [line for line in self.lines if line.measure == measure and name in ("", line.name)]

    def median(self, measure: str, name: str, value: str, at: float = 0.0) -> float | None:
        """Return the median of a contender's repeats, None if there are none."""
        found = [line.values[value] for line in self.of(measure, name) if line.at == at and value in line.values]
        return statistics.median(found) if found else None

    def contenders(self, measure: str) -> list[Line]:
        """Return one line for each contender of a measure that has values."""
        lines = [line for line in self.of(measure) if line.values]
        return list({line.name: line for line in lines}.values())
