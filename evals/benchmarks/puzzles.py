"""Game of 24: every puzzle that has a solution, found by exact search.

Of the 1,820 multisets of four numbers from 1 to 13, 1,362 make 24 with + - * / and intermediate fractions. They are the
puzzles of Tree of Thoughts (Yao et al., NeurIPS 2023). Its usual 100 test puzzles, ranks 901 to 1,000 by human solving
time, are the subset "tot-hard". The subset "official" is that of the reference implementation: the first 100 in order
of their numbers. They are easier than the rest, because each has a 1.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Any

from agentflow.evals.benchmarks.subsets import key, listed
from agentflow.graph.run.task import Task

TARGET = 24
OFFICIAL = 100
"""Number of puzzles of the official subset."""
MOST = 5
"""Most numbers of a puzzle in a file, because the search grows fast."""

Numbers = tuple[int, ...]


def puzzles(subset: str) -> list[Task]:
    """Return the puzzles of a subset: all, tot-hard, tot-rest (all others) or official."""
    if subset in ("tot-hard", "tot-rest"):
        ranks = {ranked: rank for rank, ranked in enumerate(listed("game24", "tot-hard"))}
        if subset == "tot-rest":
            return [one for one in _all() if _key(one) not in ranks]
        hard = [one for one in _all() if _key(one) in ranks]
        return sorted(hard, key=lambda one: ranks[_key(one)])
    return list(_all()[:OFFICIAL] if subset == "official" else _all())


def _key(puzzle: Task) -> str:
    return key("game24", " ".join(map(str, puzzle.data["numbers"])))


@cache
def _all() -> tuple[Task, ...]:
    """Return all puzzles in order of their numbers."""
    candidates = combinations_with_replacement(range(1, 14), 4)
    return tuple(_task(numbers, found) for numbers in candidates if (found := solution(numbers)))


def puzzle(row: Mapping[str, Any]) -> Task:
    """Convert a row of a file with `numbers`, as a list or separated by spaces. Raises ValueError or KeyError."""
    given = row.get("Puzzles") or row["numbers"]
    numbers = tuple(sorted(int(number) for number in (given.split() if isinstance(given, str) else given)))
    found = solution(numbers) if 2 <= len(numbers) <= MOST else None
    if found is None:
        raise ValueError(f"{numbers} cannot make {TARGET}")
    return _task(numbers, found)


def _task(numbers: Numbers, expression: str) -> Task:
    listed_numbers = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    question = f"Use {listed_numbers} once each with + - * / to make {TARGET}."  # the wording of Atlas
    return Task.of(question, expression, "game of 24", numbers=list(numbers), target=TARGET)


def solution(numbers: Numbers, target: int = TARGET) -> str | None:
    """Return an expression of all `numbers` that makes `target` exactly, None if there is none."""
    for left, right in _splits(numbers):
        others = _values(right)
        for value, text in _values(left).items():
            for form, other in _completions(value, Fraction(target)):
                if other in others:
                    return form.format(text, others[other])
    return None


@cache
def _values(numbers: Numbers) -> dict[Fraction, str]:
    """Return all values that can be made of all `numbers`, each with an expression."""
    if len(numbers) == 1:
        return {Fraction(numbers[0]): str(numbers[0])}
    found: dict[Fraction, str] = {}
    for left, right in _splits(numbers):
        for a, x in _values(left).items():
            for b, y in _values(right).items():
                found |= {a + b: f"({x}+{y})", a - b: f"({x}-{y})", b - a: f"({y}-{x})", a * b: f"({x}*{y})"}
                found |= {a / b: f"({x}/{y})"} if b else {}
                found |= {b / a: f"({y}/{x})"} if a else {}
    return found


def _splits(numbers: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield every partition of `numbers` in two parts; the first number is in the left part."""
    first, *rest = numbers
    for size in range(len(rest)):
        for others in combinations(range(len(rest)), size):
            left = (first, *(rest[position] for position in others))
            yield left, tuple(rest[position] for position in range(len(rest)) if position not in others)


def _completions(value: Fraction, target: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Yield each way to make `target` from `value` and another value.

    Each is a format string for both expressions, and the other value.
    """
    yield "{0}+{1}", target - value
    yield "{0}-{1}", value - target
    yield "{1}-{0}", target + value
    if value:
        yield "{0}*{1}", target / value
        yield "{1}/{0}", target * value
        yield "{0}/{1}", value / target
