"""The calibration rows, and what is computed from a judge's decisions on them."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.calibration import CalibrationRow, calibrate, kappa, read_calibration
from agentflow.evals.scorers.free_text import free_text
from agentflow.evals.scorers.score import Decision
from tests.failing import fails
from tests.unit.evals.benchmarks.judges import ScriptedJudge

CORRECT, INCORRECT, UNDECIDED = Decision
ROWS = read_calibration()


def test_rules_reject_no_correct_row_and_accept_no_wrong_one() -> None:
    decisions = [(row, free_text(row.answer, [row.gold]).decision) for row in ROWS]
    assert [row.answer for row, decision in decisions if decision not in (row.decision, UNDECIDED)] == []


LABELS = {(row.question, row.answer): row.decision for row in ROWS}
CORRECT_ROWS = sum(row.correct for row in ROWS)


@pytest.mark.parametrize(
    ("says", "kappa", "accepts", "rejects"),
    [
        (lambda question, gold, answer: LABELS[question, answer], 1, 0, 0),
        (CORRECT, 0, len(ROWS) - CORRECT_ROWS, 0),
        (INCORRECT, 0, 0, CORRECT_ROWS),
    ],
)
async def test_a_perfect_judge_agrees_fully_and_one_that_always_says_the_same_by_chance_only(
    says: Any, kappa: float, accepts: int, rejects: int
) -> None:
    found = await calibrate(ScriptedJudge(says), ROWS)
    assert found.kappa == pytest.approx(kappa)
    assert (len(found.false_accepts), len(found.false_rejects), found.undecided) == (accepts, rejects, [])


def test_kappa_of_a_table_worked_out_by_hand() -> None:
    labels = [CORRECT] * 25 + [INCORRECT] * 25
    said = [CORRECT] * 20 + [INCORRECT] * 5 + [CORRECT] * 10 + [INCORRECT] * 15
    assert kappa(labels, said) == pytest.approx(0.4)
    assert kappa([CORRECT], [CORRECT]) == 1
    with pytest.raises(ValueError, match="at least one"):
        kappa([], [])


@pytest.mark.parametrize(
    ("line", "code", "named"),
    [("{}", "bad_row", "kind"), ("3", "bad_row", ""), ('{"kind"', "unreadable", "column 8"), ("", "no_rows", "")],
)
def test_a_wrong_row_is_named_by_its_line(line: str, code: str, named: str, tmp_path: Path) -> None:
    row = CalibrationRow(kind="own", question="q", gold="g", answer="a", correct=True).model_dump_json()
    (tmp_path / "rows.jsonl").write_text(f"{row}\n\n{line}\n" if line else "")
    with fails(BenchmarkError, code, named, "line 3" if line else "rows.jsonl"):
        read_calibration(tmp_path / "rows.jsonl")
