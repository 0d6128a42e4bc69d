"""Results of a folder: the denominator is complete, and invented tools are not columns."""

from pathlib import Path

import pytest

from agentflow.evals.intervals import accuracy_interval
from agentflow.evals.report.paper import paper
from agentflow.evals.results_store import ResultsError
from agentflow.evals.runs import FAMILIES, NO_TOOL, UNKNOWN_TOOL, read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.tools.result import ErrorClass
from tests.failing import fails
from tests.runs import record, turn, write_run


def test_what_has_not_ended_counts_as_wrong(tmp_path: Path) -> None:
    [run] = read_runs([write_run(tmp_path / "a", [record(n) for n in range(30)], questions=40)])
    [cell] = run.cells
    assert (cell.questions, cell.ended, cell.number) == (40, 30, 40)
    assert cell.accuracy == 0.75
    assert (cell.low, cell.high) == accuracy_interval([1.0] * 30 + [0.0] * 10)


def test_the_accuracy_of_a_running_evaluation_is_in_its_interval(tmp_path: Path) -> None:
    """A missing sample is wrong, and is not another question."""
    records = [record(n, sample=sample, correct=n % 10 > 0) for sample in range(3) for n in range(50)]
    [run] = read_runs([write_run(tmp_path / "a", records[:137], questions=50, epochs=4)])
    [cell] = run.cells
    assert (cell.questions, cell.number) == (50, 200)
    assert cell.low < cell.accuracy < cell.high


def test_a_family_has_its_own_accuracy(tmp_path: Path) -> None:
    """Its questions are those with a record; a missing sample is wrong."""
    records = [record(n, sample=sample, family="abc"[n % 2], correct=n % 2 > 0) for n in range(10) for sample in (0, 1)]
    [run] = read_runs([write_run(tmp_path / "a", records[:-1], epochs=2, questions=12)])
    first, second = run.families
    assert (first.family, first.questions, first.accuracy, first.low) == ("a", 5, 0, 0)
    assert (second.family, second.questions, second.accuracy) == ("b", 5, 0.9)


@pytest.mark.parametrize(("families", "listed"), [(FAMILIES, FAMILIES), (FAMILIES + 1, 0)])
def test_very_many_families_are_not_listed(tmp_path: Path, families: int, listed: int) -> None:
    [run] = read_runs([write_run(tmp_path / "a", [record(n, family=str(n % families)) for n in range(100)])])
    assert len(run.families) == listed


def test_failed_and_undecided_are_counted(tmp_path: Path) -> None:
    records = [record(0), record(1, error="down"), record(2, decision=Decision.UNDECIDED)]
    [run] = read_runs([write_run(tmp_path / "a", records)])
    assert (run.cells[0].failed, run.cells[0].undecided) == (1, 1)
    assert run.cells[0].accuracy == pytest.approx(1 / 3)
    assert run.cells[0].most == pytest.approx(2 / 3)


def test_a_benchmarks_own_metrics_have_the_same_denominator(tmp_path: Path) -> None:
    records = [record(n).model_copy(update={"metrics": {"f1": 0.5}}) for n in range(2)]
    [run] = read_runs([write_run(tmp_path / "a", records, questions=4)])
    assert run.cells[0].metrics == {"f1": 0.25}


def test_several_tries_have_pass_at_k(tmp_path: Path) -> None:
    """Question 0 is right in two of four tries, question 1 in none, and question 2 has only one try so far."""
    records = [record(0, sample=n, correct=n < 2) for n in range(4)] + [
        record(1, sample=n, correct=False) for n in range(4)
    ]
    [run] = read_runs([write_run(tmp_path / "a", [*records, record(2)], epochs=4)])
    [cell] = run.cells
    assert cell.number == 12
    assert cell.accuracy == pytest.approx(3 / 12)
    assert cell.pass_at == pytest.approx({2: (5 / 6 + 1 / 2) / 3, 4: 2 / 3})


def test_one_try_has_no_pass_at_k(tmp_path: Path) -> None:
    [run] = read_runs([write_run(tmp_path / "a", [record(0)])])
    assert run.cells[0].pass_at == {}


def test_tools_are_counted_by_call_and_by_question(tmp_path: Path) -> None:
    made_up = turn(4, "MakeItUp7", ErrorClass.UNKNOWN_TOOL)
    turns = [turn(1), turn(2, error=ErrorClass.TIMEOUT), turn(3, "", ErrorClass.BAD_PLAN), made_up]
    [run] = read_runs([write_run(tmp_path / "a", [record(0, turns=turns), record(1)])])
    [cell] = run.cells
    assert list(cell.tools) == ["python_coder", NO_TOOL, UNKNOWN_TOOL]
    coder = cell.tools["python_coder"]
    assert (coder.calls, coder.questions, coder.errors, coder.failed) == (2, 1, {"timeout": 1}, 1)
    assert (cell.calls, cell.turns, cell.error_rate) == (4, 2.0, 0.75)


def test_benchmarks_are_apart(tmp_path: Path) -> None:
    records = [record(0), record(0, benchmark="aime24", correct=False)]
    [run] = read_runs([write_run(tmp_path / "a", records)])
    assert {cell.benchmark: cell.accuracy for cell in run.cells} == {"bamboogle": 1.0, "aime24": 0.0}
    assert run.tries("aime24") == {f"{0:016x}": [False]}


def test_names_tell_folders_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / end, [record(0)]) for end in ("x/seed", "y/seed")]
    assert [run.name for run in read_runs(folders)] == ["x/seed", "y/seed"]
    assert [run.name for run in read_runs(folders[:1])] == ["seed"]
    with fails(ResultsError, "named_twice"):
        read_runs([folders[0], folders[0] / ".." / "seed"])


def test_the_planner_names_the_row(tmp_path: Path) -> None:
    run, other = read_runs(
        [write_run(tmp_path / "a", [record(0)], planner="openai:p"), write_run(tmp_path / "b", [record(0)])]
    )
    assert (run.planner, other.planner) == ("openai:p", "embedded:trained")


def test_the_papers_table_is_whole_and_its_means_are_those_of_its_columns() -> None:
    benchmarks = [name for group in paper().groups for name in group.benchmarks]
    for method in paper().methods:
        assert set(method.accuracy) == set(benchmarks)
        for group in paper().groups:
            if group.average and not method.name.startswith("Best"):
                mean = sum(method.accuracy[name] for name in group.benchmarks) / len(group.benchmarks)
                assert method.averages[group.name] == pytest.approx(mean, abs=0.15)


def test_what_came_since_the_paper_says_why_it_is_no_row_of_its_table() -> None:
    benchmarks = {name for group in paper().groups for name in group.benchmarks}
    assert len(paper().since) >= 4
    for other in paper().since:
        assert other.accuracy.keys() <= benchmarks
        assert other.url.startswith("https://")
        assert other.protocol
        assert other.differs
