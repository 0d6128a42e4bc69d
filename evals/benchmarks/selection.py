"""Selection of a benchmark's tasks: by id, by position, by family or by random sampling."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.graph.run.task import Task


@dataclass(frozen=True)
class Selection:
    """Filters that are applied to a benchmark's tasks in turn; the order of tasks is kept."""

    ids: Sequence[str] = ()
    """Ids or unique prefixes of ids."""
    families: Sequence[str] = ()
    span: str = ""
    """Range of positions such as "20:40", "20:" or ":40"; they count from 0, and the end is exclusive."""
    sample: int | None = None
    """Size of a random sample."""
    seed: int = 0

    def __bool__(self) -> bool:
        return self != Selection(seed=self.seed)

    def of(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the selected tasks. Raises BenchmarkError if there are none, or for an unknown id, family or range."""
        found = self._named(tasks)
        if self.families:
            known = {one.family for one in tasks}
            if missing := sorted(set(self.families) - known):
                there = ", ".join(sorted(known)) or "none"
                raise BenchmarkError(f"there is no family {missing[0]!r}; there are {there}", code="unknown_family")
            found = [one for one in found if one.family in self.families]
        found = found[range_of(self.span)]
        if self.sample:
            found = self._drawn(found, self.sample)
        if not found:
            raise BenchmarkError(f"of {len(tasks):,} questions none is selected", code="no_questions")
        return found

    def _named(self, tasks: Sequence[Task]) -> list[Task]:
        chosen = set()
        for name in self.ids:
            matching = {one.id for one in tasks if one.id.startswith(name)}
            if len(matching) != 1:
                why = f"{len(matching)} questions have an id that begins with" if matching else "no question has the id"
                raise BenchmarkError(f"{why} {name!r}", code="unknown_id")
            chosen |= matching
        return [one for one in tasks if one.id in chosen] if self.ids else list(tasks)

    def _drawn(self, tasks: Sequence[Task], number: int) -> list[Task]:
        """Draw a random sample without replacement.

        For one seed, each task has a fixed rank, so that other filters do not change it and a larger sample includes a
        smaller one.
        """
        ranked = sorted(range(len(tasks)), key=lambda place: random.Random(f"{self.seed} {tasks[place].id}").random())
        return [tasks[place] for place in sorted(ranked[:number])]


ALL = Selection()


def range_of(text: str) -> slice:
    """Parse a range such as "20:40", "20:" or ":40"; "" is everything. Raises BenchmarkError."""
    first, colon, last = text.partition(":")
    if text and (not colon or not all(part.isdecimal() or not part for part in (first, last))):
        raise BenchmarkError(f"{text!r} is no range; write it as 20:40, the last one left out", code="bad_range")
    start, end = int(first or 0), int(last) if last else None
    if end is not None and end <= start:
        raise BenchmarkError(f"{text!r} is an empty range", code="bad_range")
    return slice(start, end)
