"""Tables of replies with the verdict of a careful person; `python -m benchmarks.scorers` prints what they come to.

The first half was at hand while the scorers were written, the second was written by others who did not see them, and
was scored for the first time when they were done. What both halves ask now is that nothing wrong is accepted.
"""

import pytest

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.scorers.expression import expression
from agentflow.evals.scorers.score import Decision
from benchmarks.scorers import NATURAL, NEAR, TABLES, Reply, decision, replies, written

DECIDED = {"game24": 0.9, "numbers": 0.9, "options": 0.9, "yes_no": 0.65}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_two_halves_of_many_replies(table: str) -> None:
    rows = replies(table)
    assert min(sum(row.half == half for row in rows) for half in ("first", "second")) >= 120
    assert len(rows) >= 300
    assert len({row.model_dump_json() for row in rows}) == len(rows)


@pytest.mark.parametrize("half", ["first", "second"])
@pytest.mark.parametrize("table", TABLES)
def test_what_is_wrong_is_not_accepted_and_what_is_right_not_rejected(table: str, half: str) -> None:
    rows = [row for row in replies(table) if row.half == half and row.verdict != "unclear"]
    by_decision: dict[tuple[str, Decision], list[Reply]] = {}
    for row in rows:
        by_decision.setdefault((row.verdict, decision(table, row)), []).append(row)
    assert by_decision.get(("incorrect", Decision.CORRECT), []) == []
    right = [row for row in rows if row.verdict == "correct"]
    assert len(by_decision.get(("correct", Decision.INCORRECT), [])) <= 0.01 * len(right)
    undecided = sum(len(found) for (_, made), found in by_decision.items() if made == Decision.UNDECIDED)
    assert 1 - undecided / len(rows) >= DECIDED[table]


def test_every_puzzle_is_read_in_a_natural_form_and_no_near_miss_is_accepted() -> None:
    """In one of the forms each; the benchmark tries all."""
    for place, puzzle in enumerate(benchmark("game24").examples()):
        natural, near = NATURAL[place % len(NATURAL)], NEAR[place % len(NEAR)]
        assert expression(written(puzzle, natural), puzzle.data["numbers"], 24).correct, natural
        assert not expression(written(puzzle, near), puzzle.data["numbers"], 24).correct, near
