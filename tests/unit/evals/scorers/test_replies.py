"""Tables of replies with the verdict of a careful reader.

The first part was at hand while the scorers were written; it has one right reply for each kind and reason. The others
were written by language models that did not see them, and were scored for the first time when they were done. What all
of them ask now is that nothing wrong is accepted.
"""

import pytest

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.score import Decision
from tests.unit.evals.scorers.replies import NATURAL, NEAR, Reply, decision, replies, written

DECIDED = {
    "first": {"game24": 0.97, "numbers": 0.99, "options": 0.96, "yes_no": 0.99},
    "second": {"game24": 0.98, "numbers": 0.97, "options": 0.93, "yes_no": 0.8},
    "third": {"numbers": 0.88, "options": 0.7, "yes_no": 0.8},
    "fourth": {"game24": 0.87, "numbers": 0.73, "options": 0.76, "yes_no": 0.55},
}
"""Least share of replies that a part decides."""


@pytest.mark.parametrize(("part", "table"), [(part, table) for part, tables in DECIDED.items() for table in tables])
def test_what_is_wrong_is_not_accepted_and_what_is_right_not_rejected(part: str, table: str) -> None:
    rows = [row for row in replies(table) if row.part == part]
    by_decision: dict[tuple[str, Decision], list[Reply]] = {}
    for row in rows:
        by_decision.setdefault((row.verdict, decision(table, row)), []).append(row)
    assert by_decision.get(("incorrect", Decision.CORRECT), []) == []
    right = [row for row in rows if row.verdict == "correct"]
    assert len(by_decision.get(("correct", Decision.INCORRECT), [])) <= 0.01 * len(right)
    undecided = sum(len(found) for (_, made), found in by_decision.items() if made == Decision.UNDECIDED)
    assert 1 - undecided / len(rows) >= DECIDED[part][table]


def test_every_puzzle_is_read_in_a_natural_form_and_no_near_miss_is_accepted() -> None:
    """In one of the forms each."""
    for place, puzzle in enumerate(benchmark("game24").tasks()):
        natural, near = NATURAL[place % len(NATURAL)], NEAR[place % len(NEAR)]
        assert expression(written(puzzle, natural), puzzle.data["numbers"], 24).correct, natural
        assert not expression(written(puzzle, near), puzzle.data["numbers"], 24).correct, near
