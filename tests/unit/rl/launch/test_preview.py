"""What a preview says of rollouts, and what a step of a preset costs."""

from dataclasses import replace

import pytest

pytest.importorskip("verl")

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.launch.preview import Preview, notes, obstacles
from agentflow.rl.rollout.packing import Reason
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus
from tests.unit.rl.rollout.test_packing import call


def trajectory(reward: float = 1.0, status: RolloutStatus = RolloutStatus.OK, task: str = "1") -> Rollout:
    calls = [call(0, [1] * 100, [3] * 10), call(1, [1] * 50 + [2] * 100, [3] * 10)]
    trace = Trace(task=Task(id=task, question="q"), status="answered", error="" if status == "ok" else "it broke")
    return Rollout("r", status, reward, calls, [False] * 2, trace, {"planner": 2})


def test_breaks_cost_the_tokens_that_are_computed_again() -> None:
    preview = Preview([trajectory()])
    assert preview.breaks == {Reason.PROMPT: (1, 50)}
    assert preview.forward_tokens == 270
    [note] = notes(preview)
    assert "50" in note


def test_what_the_policy_broke_counts_and_what_is_left_out_costs_nothing() -> None:
    ended = [trajectory(), trajectory(0.0, RolloutStatus.POLICY_FAILED), trajectory(0.0, RolloutStatus.CRASHED)]
    shown = [Preview(ended, zero) for zero in ([], ["policy"])]
    assert [(len(one.counted), len(one.finished), one.forward_tokens) for one in shown] == [(1, 1, 270), (2, 1, 540)]
    assert [one.groups_with_signal.value for one in shown] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("found", "hopeless"),
    [
        ([trajectory(1.0), trajectory(0.0)], False),
        ([trajectory(1.0), trajectory(1.0)], True),
        ([trajectory(1.0)], False),
        ([trajectory(status=RolloutStatus.BAD_REWARD)], True),
        ([replace(trajectory(), calls=[])], True),
        ([replace(trajectory(), calls=[], model_calls={})], True),
    ],
)
def test_what_stands_against_learning(found: list[Rollout], hopeless: bool) -> None:
    assert bool(obstacles(Preview(found), ["planner"])) == hopeless


def test_a_call_that_the_model_could_not_answer_is_not_taken_for_one_elsewhere() -> None:
    failed = replace(trajectory(status=RolloutStatus.CRASHED), calls=[])
    [found] = obstacles(Preview([failed]), [])
    assert "it broke" in found


def test_equal_rewards_of_a_script_say_nothing_and_its_failures_do() -> None:
    equal = Preview([trajectory(0.0)] * 2, scripted=True)
    assert (obstacles(equal, []), len(notes(equal))) == ([], 1 + len(notes(replace(equal, scripted=False))))
    assert obstacles(Preview([trajectory(status=RolloutStatus.BAD_REWARD)], scripted=True), [])
