"""Evaluations: the same questions, answers and ids."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.results_store import store_scores
from agentflow.evals.scorers.score import Decision
from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import read_tasks
from agentflow.rl.traces import own
from agentflow.rl.traces.convert import convert
from agentflow.rl.traces.episode import Dropped
from tests.runs import record, write_run
from tests.unit.rl.traces.spans import rows

TEXT = st.text("abcdefgh 0123456789.,?äß\n", min_size=1, max_size=40).filter(str.strip)

ASKED = st.tuples(TEXT, TEXT, st.booleans())
"""A question, its answer, and whether a run was right."""


@given(st.lists(ASKED, min_size=1, max_size=8, unique_by=lambda one: " ".join(one[0].split())))
def test_an_evaluation_and_back(asked: list[tuple[str, str, bool]]) -> None:
    tasks = [Task.of(question, gold) for question, gold, _ in asked]
    with TemporaryDirectory() as name:
        records = [
            record(number, correct=correct).model_copy(update={"task": task})
            for number, (task, (_, _, correct)) in enumerate(zip(tasks, asked, strict=True))
        ]
        convert(write_run(Path(name) / "run", records), Path(name) / "out")
        back = read_tasks(Path(name) / "out" / "tasks.jsonl", graded=True)
    known = [(task.question, task.gold, task.id, task.id) for task in tasks]
    assert [(one.question, one.gold, one.id, one.data["id"]) for one in back] == known
    assert [one.data["reward"] for one in back] == [float(correct) for _, _, correct in asked]


def test_a_failed_or_undecided_run_has_no_reward_and_the_last_score_counts(tmp_path: Path) -> None:
    records = [record(0, error="down"), record(1, decision=Decision.UNDECIDED), record(2, correct=False)]
    folder = write_run(tmp_path / "run", records)
    store_scores(folder, [record(2)], {})
    found = {one.run: one.reward for one in own.read(folder, Dropped(list))}
    assert list(found.values()) == [None, None, 1.0]


def test_a_later_record_of_a_sample_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0, correct=False), record(0, correct=True), record(0, sample=1)])
    convert(folder, tmp_path / "out")
    [task] = rows(tmp_path / "out" / "tasks.jsonl")
    assert (task["reward"], task["runs"]) == (1.0, 2)
