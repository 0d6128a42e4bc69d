"""Our own run folders: the same questions, answers and ids; the planner's real prompts; the sampled token ids."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.record import Record
from agentflow.evals.results_store import store_scores
from agentflow.evals.scorers.score import Decision, Score
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run as run_task
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import append
from agentflow.rl.agent import read_tasks
from agentflow.rl.chat import TokenReply
from agentflow.rl.replay_log import Entry, as_answer
from agentflow.rl.rollout import CallRecord, RolloutRecord
from agentflow.rl.traces import own
from agentflow.rl.traces.convert import convert
from agentflow.rl.traces.errors import TracesError
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.training_log import TrainingLog
from tests.failing import fails
from tests.runs import record, write_run
from tests.scripted import CONTINUE, STOP, Scripted
from tests.trainings import begin, rollout, write_step

TEXT = st.text("abcdefgh 0123456789.,?äß\n", min_size=1, max_size=40).filter(str.strip)


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


ASKED = st.tuples(TEXT, TEXT, st.booleans())
"""A question, its answer, and whether a run was right."""


@given(st.lists(ASKED, min_size=1, max_size=8, unique_by=lambda one: " ".join(one[0].split())))
def test_an_evaluation_and_back(asked: list[tuple[str, str, bool]]) -> None:
    tasks = [Task.of(question, gold) for question, gold, _ in asked]
    with TemporaryDirectory() as name:
        records = []
        for number, (task, (_, _, correct)) in enumerate(zip(tasks, asked, strict=True)):
            made = record(number, correct=correct, question=task.question, gold=task.gold)
            records.append(made.model_copy(update={"task": task}))
        folder = write_run(Path(name) / "run", records)
        convert(folder, Path(name) / "out")
        back = read_tasks(Path(name) / "out" / "tasks.jsonl", graded=True)
    assert [(one.question, one.gold, one.id, one.data["id"]) for one in back] == [
        (task.question, task.gold, task.id, task.id) for task in tasks
    ]
    assert [one.data["reward"] for one in back] == [float(correct) for _, _, correct in asked]


def test_a_failed_or_undecided_run_has_no_reward_and_the_last_score_counts(tmp_path: Path) -> None:
    records = [record(0, error="down"), record(1, decision=Decision.UNDECIDED), record(2, correct=False)]
    folder = write_run(tmp_path / "run", records)
    store_scores(folder, [record(2)], {})
    found = {one.run: one.reward for one in own.read_evaluation(folder, Ledger())}
    assert list(found.values()) == [None, None, 1.0]


def test_a_later_record_of_a_sample_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0, correct=False), record(0, correct=True), record(0, sample=1)])
    convert(folder, tmp_path / "out")
    [task] = rows(tmp_path / "out" / "tasks.jsonl")
    assert (task["reward"], task["runs"]) == (1.0, 2)


async def test_the_conversation_is_the_planners_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [f"Sub-Goal: step {number}\nTool: base_generator\nContext: hello" for number in (1, 2)]
    script = Scripted(planner=plans, verifier=[CONTINUE, STOP], executor='{"query": "hello"}')
    script.install(monkeypatch)
    context = Context(model=script.spec, tools=["base_generator"], max_turns=4)
    found = await run_task(build_graph(), Task.of("Which word?", "hello"), context)
    folder = tmp_path / "run"
    write_run(
        folder,
        [Record.of(found, "own", 0, Score(Decision.CORRECT, "rule"))],
        **context.model_dump(include={"tools", "max_turns"}),
    )
    convert(folder, tmp_path / "out")
    [row] = rows(tmp_path / "out" / "sft.jsonl")
    last = script.asked("planner")[-1]
    assert [one["content"] for one in row["messages"]] == [*(message.text for message in last), plans[-1]]
    assert [one["role"] for one in row["messages"]] == ["system", *["user", "assistant"] * 2]
    assert row["node"] == "planner"


def test_prompts_with_tools_of_others_are_not_rendered(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0)], tools=["my_pkg.tools:search"])
    ledger = convert(folder, tmp_path / "out")
    assert ledger.dropped[Reason.NO_CONVERSATION] == 1


REPLY = TokenReply("plan", [1, 2, 3], [7, 8], [-0.5, -0.25], "stop", 3)


def calls_of(*nodes: str) -> list[CallRecord]:
    known = {"sampled_tokens": 2, "finish_reason": "stop", "reward": 0.0, "fault": False}
    return [CallRecord(node=node, prompt_tokens=3, **known) for node in nodes]


def training(out: Path, *made: tuple[RolloutRecord, list[TokenReply]]) -> Path:
    """The folder of a training with its replay logs."""
    begin(out, 1)
    write_step(out, 1, [one for one, _ in made])
    for one, replies in made:
        for reply in replies:
            entry = Entry(rollout=one.id, kind="policy", request="r", answer=as_answer(reply))
            append(TrainingLog(out).replay_log_of(1, "train"), entry)
    return out


def made(id: str, reward: float, *nodes: str, **known: Any) -> RolloutRecord:
    return rollout(1, "train", "t", reward, id=id, **known).model_copy(update={"calls": calls_of(*nodes)})


def test_token_ids_are_those_that_were_sampled(tmp_path: Path) -> None:
    accepted, rejected = made("t/0", 1.0, "research/planner"), made("t/1", 0.0, "research/planner", answer="wrong")
    folder = training(tmp_path / "run", (accepted, [REPLY]), (rejected, [REPLY]))
    ledger = convert(folder, tmp_path / "out", exact=True)
    [row] = rows(tmp_path / "out" / "tokens.jsonl")
    assert row == {
        "task": "t",
        "run": "1/t/0",
        "reward": 1.0,
        "nodes": ["research/planner"],
        "prompt_ids": [1, 2, 3],
        "response_ids": [7, 8],
        "mask": [1, 1],
        "logprobs": [-0.5, -0.25],
        "weights_version": 3,
    }
    assert ledger.dropped[Reason.REJECTED] == 1
    [pair] = rows(tmp_path / "out" / "preferences.jsonl")
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("the answer", "wrong")


def test_calls_that_continue_each_other_are_one_row(tmp_path: Path) -> None:
    later = TokenReply("more", [1, 2, 3, 7, 8, 4], [9], [-1.0], "stop", 3)
    one = made("t/0", 1.0, "planner")
    next_call = one.calls[0].model_copy(update={"prompt_tokens": 6, "sampled_tokens": 1})
    one = one.model_copy(update={"calls": [*one.calls, next_call]})
    convert(training(tmp_path / "run", (one, [later, REPLY])), tmp_path / "out")
    [row] = rows(tmp_path / "out" / "tokens.jsonl")
    assert (row["prompt_ids"], row["response_ids"], row["mask"]) == ([1, 2, 3], [7, 8, 4, 9], [1, 1, 0, 1])


@pytest.mark.parametrize(
    ("one", "replies", "reason"),
    [
        (made("t/0", 1.0, "planner"), [], None),
        (made("t/0", 1.0, "planner"), [TokenReply("", [1], [2], [0.0], "stop")], Reason.UNPLACED_IDS),
        (made("t/0", 1.0, "planner", "critic"), [REPLY, REPLY], Reason.UNPLACED_IDS),
        (
            made("t/0", 1.0, "planner"),
            [replace(REPLY, text="key: ***")],
            Reason.STRUCK_IDS,
        ),
        (made("t/0", 1.0, "planner", answer="ask me@example.com"), [REPLY], Reason.STRUCK_IDS),
    ],
)
def test_token_ids_that_cannot_be_trusted_are_left_out(
    tmp_path: Path, one: RolloutRecord, replies: list[TokenReply], reason: Reason | None
) -> None:
    folder = training(tmp_path / "run", (one, replies))
    ledger = convert(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "tokens.jsonl").exists()
    assert reason is None or ledger.dropped[reason] == 1
    with fails(TracesError, "no_ids", folder):
        convert(folder, tmp_path / "out", exact=True)


def test_the_context_of_a_training_is_that_of_its_app(tmp_path: Path) -> None:
    known = {"app": "agentflow.rl.planner:atlas", "options": {"max_turns": 3}}
    context = own._context(own.TrainingRun(**known))
    assert context is not None
    assert (context.max_turns, context.tools) == (3, Context().tools)
    assert own._context(own.TrainingRun(app="my_pkg:agent")) is None
    assert own._context(own.TrainingRun(**known | {"options": {"agent": "react"}})) is None


def test_a_folder_of_another_version(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record(0)])
    (folder / "settings.json").write_text('{"kind": "evaluation"}')
    with fails(TracesError, "other_version", folder):
        convert(folder, tmp_path / "out")
