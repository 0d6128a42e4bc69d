"""Evaluations: the same questions, answers and ids, and the prompts that the modules were asked."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.record import Record
from agentflow.evals.results_store import TRACES, store_scores
from agentflow.evals.scorers.score import Decision, Score
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run as run_task
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import append
from agentflow.rl.apps.agent import read_tasks
from agentflow.rl.traces import own
from agentflow.rl.traces.convert import convert
from agentflow.rl.traces.episode import Dropped, DropReason
from tests.runs import record, write_run
from tests.scripted import CONTINUE, STOP, Scripted
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


async def test_the_conversations_are_those_that_were_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [f"Sub-Goal: step {number}\nTool: base_generator\nContext: hello" for number in (1, 2)]
    script = Scripted(planner=plans, verifier=[CONTINUE, STOP], executor='{"query": "hello"}')
    script.install(monkeypatch)
    context = Context(model=script.spec, tools=["base_generator"], max_turns=4)
    found = await run_task(build_graph(), Task.of("Which word?", "hello"), context)
    folder = write_run(tmp_path / "run", [record(1)])
    append(folder / TRACES, Record.of(found, "own", 0, Score(Decision.CORRECT, "rule")))
    _, dropped = convert(folder, tmp_path / "out")
    assert len(dropped[DropReason.NO_CONVERSATION]) == 1, "the record without calls"
    sft = {row["node"]: row["messages"] for row in rows(tmp_path / "out" / "sft.jsonl")}
    assert {*sft} == {"analyst", "planner", "executor", "verifier", "generator"}, "not the model behind a tool"
    asked = [message.text for message in script.asked("planner")[-1]]
    assert [one["content"] for one in sft["planner"]] == [*asked, plans[-1]]
    assert [one["role"] for one in sft["planner"]] == ["system", *["user", "assistant"] * 2]
