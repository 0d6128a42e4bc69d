"""What was measured: a line of JSON for each measurement, so that a run that was stopped goes on where it was.

Repeats go round all contenders before the next begins; what is reported is the median of the repeats.
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
    """The contender's."""
    label: str
    role: Role
    repeat: int
    at: float = 0.0
    """Where cost is measured as something grows: how large that was."""
    version: str = ""
    values: dict[str, float] = {}
    """By name; in seconds, bytes, or as the measure says."""
    profile: dict[str, float] = {}
    """Shares of the time by package."""
    error: str = ""
    """Reason why there is nothing else."""


@dataclass
class SpeedResults:
    """The lines of a file, and those that are added to it."""

    path: Path
    repeats: int
    small: bool
    """Few rollouts each, to see that everything runs; such figures mean nothing."""
    show: Callable[[str], None] = print
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.exists():
            whole = (line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
            self.lines = [Line.model_validate_json(line) for line in whole]
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def once(self, make: Callable[[], dict[str, Any]], **what: Any) -> None:
        """Measures and keeps, unless its figures are there: `make` gives `values`, and may give the rest of a line."""
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
        """The lines of a measure, and of one contender if one is named."""
        return [line for line in self.lines if line.measure == measure and name in ("", line.name)]

    def median(self, measure: str, name: str, value: str, at: float = 0.0) -> float | None:
        """Of a contender's repeats; None if there are none."""
        found = [line.values[value] for line in self.of(measure, name) if line.at == at and value in line.values]
        return statistics.median(found) if found else None

    def contenders(self, measure: str) -> list[Line]:
        """A line of each contender of a measure that has figures."""
        lines = [line for line in self.of(measure) if line.values]
        return list({line.name: line for line in lines}.values())
