"""Results of a folder: the denominator is complete, and invented tools are not columns."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentflow.evals.intervals import accuracy_interval
from agentflow.evals.record import Record
from agentflow.evals.run_folder import RunFolderError
from agentflow.evals.runs import NO_TOOL, UNKNOWN_TOOL, Run, read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.tools.result import ErrorClass
from tests.failing import fails
from tests.runs import record, turn, write_run


def run_of(tmp_path: Path, records: Iterable[Record], **more: Any) -> Run:
    [run] = read_runs([write_run(tmp_path / "a", list(records), **more)])
    return run


def test_what_has_not_ended_failed_or_is_undecided_counts_as_wrong(tmp_path: Path) -> None:
    records = [record(n).model_copy(update={"metrics": {"f1": 0.5}}) for n in range(28)]
    records += [record(28, error="down"), record(29, decision=Decision.UNDECIDED)]
    [cell] = run_of(tmp_path, records, questions=40).cells
    assert (cell.questions, cell.ended, cell.number) == (40, 30, 40)
    assert (cell.accuracy, cell.most, cell.failed, cell.undecided) == (0.7, 0.725, 1, 1)
    assert (cell.low, cell.high) == accuracy_interval([1.0] * 28 + [0.0] * 12)
    assert (cell.metrics, cell.pass_at) == ({"f1": 0.35}, {})


def test_the_accuracy_of_a_running_evaluation_is_in_its_interval(tmp_path: Path) -> None:
    """A missing sample is wrong, and is not another question."""
    records = [record(n, sample=sample, correct=n % 10 > 0) for sample in range(3) for n in range(50)]
    [cell] = run_of(tmp_path, records[:137], questions=50, epochs=4).cells
    assert (cell.questions, cell.number) == (50, 200)
    assert cell.low < cell.accuracy < cell.high


def test_a_family_has_its_own_accuracy(tmp_path: Path) -> None:
    """Its questions are those with a record; a missing sample is wrong."""
    records = [record(n, sample=sample, family="abc"[n % 2], correct=n % 2 > 0) for n in range(10) for sample in (0, 1)]
    first, second = run_of(tmp_path, records[:-1], epochs=2, questions=12).families
    assert (first.family, first.questions, first.accuracy, first.low) == ("a", 5, 0, 0)
    assert (second.family, second.questions, second.accuracy) == ("b", 5, 0.9)


def test_several_tries_have_pass_at_k(tmp_path: Path) -> None:
    """Question 0 is right in two of four tries, question 1 in none, and question 2 has only one try so far."""
    tries = [record(question, sample=n, correct=question == 0 and n < 2) for question in (0, 1) for n in range(4)]
    [cell] = run_of(tmp_path, [*tries, record(2)], epochs=4).cells
    assert (cell.number, cell.accuracy) == (12, pytest.approx(3 / 12))
    assert cell.pass_at == pytest.approx({2: (5 / 6 + 1 / 2) / 3, 4: 2 / 3})


def test_tools_are_counted_by_call_and_by_question(tmp_path: Path) -> None:
    made_up = turn(4, "MakeItUp7", ErrorClass.UNKNOWN_TOOL)
    turns = [turn(1), turn(2, error=ErrorClass.TIMEOUT), turn(3, "", ErrorClass.BAD_PLAN), made_up]
    [cell] = run_of(tmp_path, [record(0, turns=turns), record(1)]).cells
    assert list(cell.tools) == ["python_coder", NO_TOOL, UNKNOWN_TOOL]
    coder = cell.tools["python_coder"]
    assert (coder.calls, coder.questions, coder.errors) == (2, 1, {"timeout": 1})
    assert (cell.calls, cell.turns, cell.error_rate) == (4, 2.0, 0.75)


def test_names_tell_folders_apart_and_the_planner_names_the_row(tmp_path: Path) -> None:
    planners = {"x/seed": "openai:p", "y/seed": ""}
    folders = [write_run(tmp_path / name, [record(0)], planner=planner) for name, planner in planners.items()]
    runs = read_runs(folders)
    assert [(run.name, run.settings.planner) for run in runs] == [
        ("x/seed", "openai:p"),
        ("y/seed", "embedded:trained"),
    ]
    assert [run.name for run in read_runs(folders[:1])] == ["seed"]
    with fails(RunFolderError, "named_twice"):
        read_runs([folders[0], folders[0] / ".." / "seed"])
