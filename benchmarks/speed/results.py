"""Measurements, a line of JSON each, so that a stopped run can be resumed.

Each repeat covers all contenders of a measure before the next repeat begins. The median of the repeats counts.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from benchmarks.speed.measures import MEASURES, Contender, Measured, NotMeasured


class Line(BaseModel):
    """One measurement of one contender."""

    measure: str
    label: str
    repeat: int
    version: str = ""
    values: dict[str, float] = {}
    error: str = ""
    """Reason for a missing measurement."""


@dataclass
class SpeedResults:
    """The lines of a file, including new ones."""

    path: Path
    show: Callable[[str], None] = print
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path.exists():
            whole = (line for line in self.path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
            self.lines = [Line.model_validate_json(line) for line in whole]
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def once(self, measure: str, contender: Contender, repeat: int, make: Callable[[], Measured]) -> None:
        """Measure and store, unless already done. What failed before is tried again."""
        key = (measure, contender.label, repeat)
        if any((line.measure, line.label, line.repeat) == key and line.values for line in self.lines):
            return
        try:
            found = make()
        except NotMeasured as error:
            found = {"error": str(error)}
        line = Line(measure=measure, label=contender.label, repeat=repeat, **found)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json(exclude_defaults=True) + "\n")
        self.lines.append(line)
        shown = line.error or "  ".join(f"{name} {value:.4g}" for name, value in line.values.items())
        self.show(f"{measure:<10}{contender.label:<34}{shown}")

    def median(self, measure: str, label: str, value: str) -> float | None:
        """Return the median of a contender's repeats, None if there are none."""
        found = [line.values[value] for line in self._of(measure, label) if value in line.values]
        return statistics.median(found) if found else None

    def _of(self, measure: str, label: str) -> list[Line]:
        return [line for line in self.lines if (line.measure, line.label) == (measure, label)]

    def tables(self) -> Iterator[str]:
        """Yield a table of each measure in Markdown, with every value and, in brackets, its ratio to the floor's."""
        for name, measure in MEASURES.items():
            rows = [["who", "", "version", *(title for title, _ in measure.columns.values())]]
            rows.append(["---"] * len(rows[0]))
            for one in measure.contenders:
                lines = self._of(name, one.label)
                cells = [self._cell(name, one, value, scale) for value, (_, scale) in measure.columns.items()]
                if lines and not any(line.values for line in lines):
                    cells[0] = f"not measured: {lines[-1].error}"
                rows.append([one.label, one.role, lines[-1].version if lines else "", *cells])
            yield f"## {name}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def _cell(self, measure: str, one: Contender, value: str, scale: float) -> str:
        floors = [other.label for other in MEASURES[measure].contenders if other.role == "floor"]
        found, floor = self.median(measure, one.label, value), self.median(measure, floors[0], value)
        if found is None:
            return "-"
        ratio = f" ({found / floor:.2f} x)" if floor and one.role != "floor" else ""
        return f"{found / scale:,.3g}{ratio}" if found / scale < 100 else f"{found / scale:,.0f}{ratio}"
