"""Figures of records: what has no record or failed is in the denominator, and nothing is counted twice."""

import pytest

from agentflow.evals.metrics import interval, summarise
from agentflow.evals.scorers.score import Decision
from agentflow.tools.result import ErrorClass
from tests.runs import record, turn


def test_bounds_are_of_the_undecided_answers_beside_the_missing_ones() -> None:
    """Ten tries: two right, three undecided, one failed, three wrong, one not run yet."""
    decisions = [Decision.CORRECT] * 2 + [Decision.UNDECIDED] * 3 + [Decision.INCORRECT] * 3
    records = [record(n, decision=decision) for n, decision in enumerate(decisions)] + [record(8, error="down")]
    found = summarise(records, 10)
    assert (found.total.accuracy, found.total.most, found.total.undecided) == (0.2, 0.5, 3)
    assert found.families[0].most == pytest.approx(5 / 9)


def test_turns_errors_tools_and_sources_are_counted() -> None:
    bad_plan, down = ErrorClass.BAD_PLAN, ErrorClass.TOOL_ERROR
    turns = [turn(1), turn(2, error=bad_plan), turn(3, error=down), turn(4, error=down)]
    for one, provider in zip(turns, ("gemini (m)", "tavily", "gemini (m)", ""), strict=True):
        one.result.provider = provider
    found = summarise([record(0, turns=turns)], 1)
    assert found.errors == {"bad_plan": 1, "tool_error": 2}
    assert (found.error_rate, found.readable_rate, found.total.mean_turns) == (0.75, 0.75, 4)
    assert found.tools == {"python_coder": 3}
    assert found.sources == {"gemini (m)": 2, "tavily": 1}
    assert found.verdict_rate == 1
    empty = summarise([], 0)
    assert (empty.total.accuracy, empty.total.most, empty.error_rate, empty.seconds) == (0, 0, 0, 0)


def test_tries_of_one_question_are_not_independent() -> None:
    """Four tries each of 50 questions that are always right or always wrong tell no more than one try each."""
    records = [record(n, correct=n % 2 == 0, sample=sample) for sample in range(4) for n in range(50)]
    assert interval(records) == pytest.approx(interval(records[:50]))
