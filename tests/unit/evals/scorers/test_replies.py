"""Tables of replies (`replies/`) with the verdict of a careful reader.

The first part was at hand while the scorers were written; it has one right reply for each kind and reason. The others
were written by language models that did not see them, and were scored for the first time when they were done. What all
of them ask now is that nothing wrong is accepted.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.number import number
from agentflow.evals.scorers.option import option
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.task import Task

FOLDER = Path(__file__).parent / "replies"
DECIDED = {
    "first": {"game24": 0.97, "numbers": 0.94, "options": 0.84, "yes_no": 0.99},
    "second": {"game24": 0.98, "numbers": 0.96, "options": 0.82, "yes_no": 0.8},
    "third": {"numbers": 0.84, "options": 0.6, "yes_no": 0.8},
    "fourth": {"game24": 0.87, "numbers": 0.69, "options": 0.64, "yes_no": 0.55},
}
"""Least share of replies that a part decides."""


class Reply(BaseModel):
    """A row of a table: a reply, its reference answer, and a careful person's verdict."""

    part: Literal["first", "second", "third", "fourth"]
    kind: str
    reply: str
    verdict: Literal["correct", "incorrect"]
    gold: str = ""
    numbers: list[int] = Field(default_factory=list)
    target: int = 24
    options: dict[str, str] = Field(default_factory=dict)


SCORERS: Mapping[str, Callable[[Reply], Decision]] = {
    "game24": lambda row: expression(row.reply, row.numbers, row.target).decision,
    "numbers": lambda row: number(row.reply, row.gold).decision,
    "options": lambda row: option(row.reply, row.options, row.gold).decision,
    "yes_no": lambda row: free_text(row.reply, [row.gold]).decision,
}


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("part", "table"), [(part, table) for part, tables in DECIDED.items() for table in tables])
def test_what_is_wrong_is_not_accepted_and_what_is_right_not_rejected(part: str, table: str) -> None:
    rows = [row for row in map(Reply.model_validate_json, lines(f"{table}.jsonl")) if row.part == part]
    by_decision: dict[tuple[str, Decision], list[Reply]] = {}
    for row in rows:
        by_decision.setdefault((row.verdict, SCORERS[table](row)), []).append(row)
    assert by_decision.get(("incorrect", Decision.CORRECT), []) == []
    right = [row for row in rows if row.verdict == "correct"]
    assert len(by_decision.get(("correct", Decision.INCORRECT), [])) <= 0.01 * len(right)
    undecided = sum(len(found) for (_, made), found in by_decision.items() if made == Decision.UNDECIDED)
    assert 1 - undecided / len(rows) >= DECIDED[part][table]


def written(puzzle: Task, form: str) -> str:
    """The solution of a puzzle, written in the template `form`."""
    numbers, gold = puzzle.data["numbers"], puzzle.gold
    return form.format(
        e=gold,
        latex=gold.replace("*", r" \times "),
        signs=gold.translate(str.maketrans("*/-", "×÷−")),
        wide=gold.translate(str.maketrans("()*", "（）×")),
        blanks=" ".join(map(str, numbers)),
        commas=", ".join(map(str, numbers)),
        first=numbers[0],
        newline="\n",
    )


@pytest.mark.parametrize(("forms", "correct"), [("natural.txt", True), ("near.txt", False)])
def test_every_puzzle_is_read_in_a_natural_form_and_no_near_miss_is_accepted(forms: str, correct: bool) -> None:
    """In one of the forms each: text that language models write around a solution, or a wrong reply that has one."""
    templates = lines(forms)
    for place, puzzle in enumerate(benchmark("game24").tasks()):
        reply = written(puzzle, templates[place % len(templates)])
        assert expression(reply, puzzle.data["numbers"], 24).correct == correct, reply
