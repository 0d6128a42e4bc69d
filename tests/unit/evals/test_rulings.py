"""The effective decision of several rulings, and their storage."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentflow.evals import results_store
from agentflow.evals.rescore import agreements
from agentflow.evals.rulings import JUDGE, PERSON, Ruling, answer_hash, settled
from agentflow.evals.scorers.score import Decision
from tests.failing import fails
from tests.runs import record, write_run

YES, NO, OPEN = Decision.CORRECT, Decision.INCORRECT, Decision.UNDECIDED
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def ruling(decision: Decision, decided_by: str, by: str = "", number: int = 0, answer: str = "the answer") -> Ruling:
    return Ruling(
        benchmark="bamboogle",
        id=f"{number:016x}",
        sample=0,
        answer=answer_hash(answer),
        decision=decision,
        decided_by=decided_by,
        by=by,
        at=NOW,
    )


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ([(YES, "rule", "1")], YES),
        ([(NO, "rule", "1"), (YES, "rule", "2")], YES),
        ([(OPEN, "rule", "1"), (YES, JUDGE, "a")], YES),
        ([(YES, JUDGE, "a"), (NO, "rule", "2")], NO),
        ([(YES, JUDGE, "a"), (OPEN, "rule", "2")], YES),
        ([(OPEN, "rule", "1"), (YES, JUDGE, "a"), (NO, JUDGE, "b")], OPEN),
        ([(OPEN, "rule", "1"), (YES, JUDGE, "a"), (NO, JUDGE, "b"), (YES, JUDGE, "c")], YES),
        ([(OPEN, "rule", "1"), (YES, JUDGE, "a"), (OPEN, JUDGE, "b"), (OPEN, JUDGE, "c")], OPEN),
        ([(OPEN, "rule", "1"), (YES, JUDGE, "a"), (NO, JUDGE, "a")], NO),
        ([(YES, "rule", "1"), (NO, PERSON, "me"), (YES, "rule", "2"), (YES, JUDGE, "a")], NO),
        ([(OPEN, JUDGE, "a")], OPEN),
    ],
)
def test_what_counts(said: list[tuple[Decision, str, str]], decision: Decision) -> None:
    assert settled([ruling(*one) for one in said])[0] == decision


def test_both_decisions_are_read_again_and_the_first_is_kept(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(n, decision=OPEN) for n in range(3)])
    before = results_store.digest(folder)
    results_store.rule(folder, [ruling(YES, JUDGE, "a", 1)])
    results_store.rule(folder, [ruling(NO, PERSON, "me", 1), ruling(YES, JUDGE, "a", 2, answer="another answer")])
    _, records = results_store.read(folder)
    assert [one.decision for one in records] == [OPEN, NO, OPEN]
    assert [one.decision for one in records[1].rulings] == [OPEN, YES, NO]
    assert results_store.digest(folder) != before


def test_a_torn_ruling_is_dropped(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0, decision=OPEN)])
    results_store.rule(folder, [ruling(YES, JUDGE, "a")])
    with (folder / results_store.RULINGS).open("a") as file:
        file.write('{"benchmark": "bam')
    assert results_store.read(folder)[1][0].decision == YES
    results_store.rule(folder, [ruling(NO, PERSON, "me")])
    assert results_store.read(folder)[1][0].decision == NO


def test_a_ruling_that_is_none_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0)])
    (folder / results_store.RULINGS).write_text("{}\n")
    with fails(results_store.ResultsError, "bad_line", "line 1"):
        results_store.read(folder)


def test_judges_agree_as_far_as_kappa_says() -> None:
    said = {"a": (YES, YES, NO, NO), "b": (YES, YES, NO, YES)}
    records = [
        record(n, decision=OPEN).ruled([ruling(one[n], JUDGE, name, n) for name, one in said.items()], "", NOW)
        for n in range(4)
    ]
    [(judges, (number, kappa))] = agreements(records).items()
    assert (judges, number) == (("a", "b"), 4)
    assert kappa == pytest.approx(0.5)


def test_rulings_are_in_the_order_of_time() -> None:
    one = record(0, decision=OPEN).ruled([ruling(YES, JUDGE, "a")], "", NOW - timedelta(days=1))
    two = one.ruled([ruling(NO, JUDGE, "b")], "", NOW)
    assert [said.by for said in two.rulings] == ["", "a", "b"]
    assert two.decision == OPEN
