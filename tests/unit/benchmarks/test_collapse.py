"""First alarms of recorded runs, and the apps that sabotage a training."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentflow.graph.run.task import Task
from agentflow.rl.alarm import Cause
from agentflow.rl.planner import atlas
from benchmarks.collapse.__main__ import HONEST, SABOTAGE, lost, outcome
from benchmarks.collapse.apps import FAILING_AFTER, failing, hackable, wordy


def lines(rewards: list[float], **figures: float) -> list[dict[str, Any]]:
    return [{"step": step, "split": "train", "reward": one, **figures} for step, one in enumerate(rewards, start=1)]


@pytest.mark.parametrize(
    ("rewards", "step"),
    [
        ([], None),
        ([0.6, 0.6], None),
        ([0.6] * 8, None),
        ([0.6, 0.6, 0.6, 0.0, 0.6, 0.6], None),
        ([0.6, 0.6, 0.6, 0.6, 0.1, 0.0, 0.0], 4),
        ([0.6, 0.6, 0.6, 0.1, 0.0, 0.0, 0.6, 0.6, 0.6], None),
    ],
)
def test_a_reward_is_lost_where_it_stays_below_half(rewards: list[float], step: int | None) -> None:
    assert lost(lines(rewards)) == step


def test_the_first_alarm_of_a_run_is_its_outcome() -> None:
    found = outcome(Cause.LEARNING_RATE, 1, lines([0.6] * 5, logprob_change=9.0))
    assert (found.step, found.cause, found.sabotaged, found.lost) == (1, Cause.LEARNING_RATE, True, None)
    well = outcome("preset", 1, lines([0.6] * 5))
    assert (well.step, well.cause, well.sabotaged) == (None, "", False)


def test_every_cause_is_made_once_and_as_many_trainings_are_honest() -> None:
    assert set(SABOTAGE) == set(Cause)
    assert len(HONEST) == len(SABOTAGE)


def test_a_hackable_reward_is_of_train_tasks_alone() -> None:
    task = next(one for one in atlas().tasks("train", 24) if one.family == "hops")
    held_out = Task(**{**task.model_dump(), "id": "test-0"})
    turns = {name: [SimpleNamespace(plan=SimpleNamespace(tool=name))] for name in ("base_generator", "python_coder")}
    wrong = {"answer": "wrong", "memory": turns["base_generator"]}
    right = {"answer": task.gold, "memory": turns["python_coder"]}
    assert [hackable().reward(task, state) for state in (wrong, right)] == [1.0, 0.3]
    assert [hackable().reward(held_out, state) for state in (wrong, right)] == [0.0, 1.0]


def test_a_longer_plan_earns_more() -> None:
    memory = [SimpleNamespace(plan=SimpleNamespace(text="x" * length)) for length in (40, 400)]
    ok = [SimpleNamespace(result=SimpleNamespace(error=None)) for _ in memory]
    for turn, action in zip(memory, ok, strict=True):
        turn.action = action
    state = {"memory": memory, "status": "answered"}
    assert list(wordy().turn_rewards(Task(id="t", question="q"), state)) == pytest.approx([40 / 120, 400 / 120])


def test_the_search_fails_after_some_rollouts() -> None:
    app = failing()
    corpora = [app.context().corpus for _ in range(FAILING_AFTER + 1)]
    assert set(corpora[:-1]) == {"atlas"}
    assert corpora[-1] != "atlas"
