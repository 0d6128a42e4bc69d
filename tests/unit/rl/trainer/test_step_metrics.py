"""Metrics of a step's rollouts, and why a step has nothing to train on."""

import math

import pytest

from agentflow.rl.rollout.batch import CallSpan
from agentflow.rl.trainer.step_metrics import only_reward, rollout_metrics, staleness, why_nothing
from tests.unit.rl.rows import row


def test_metrics_are_over_rollouts_and_a_reward_only_where_there_is_one() -> None:
    rows = {
        "q_0_0": row([2, 2], 1.0),
        "q_0_1": row([2, 2], 1.0),
        "q_1_0": row([2, 2], faults=[True, False]),
        "q_2_0": row([2], counted=False, status="timed_out"),
    }
    found = rollout_metrics(rows)
    assert (found["rollouts"], found["reward"], found["status/ok"], found["status/timed_out"]) == (3, 0.5, 2, 1)
    assert found["tool_error_rate"] == pytest.approx(1 / 5)
    assert (found["rows"], found["prefix_breaks"]) == (4, 1)
    assert (found["forward_tokens"], found["unpacked_tokens"]) == (54, 84)
    nothing = rollout_metrics({"q_2_0": rows["q_2_0"]})
    assert math.isnan(nothing["reward"])


def test_what_the_policy_broke_is_in_the_mean_and_the_other_mean_is_told() -> None:
    ended = [("ok", 1.0), ("ok", 0.5), ("policy_failed", 0.0), ("endpoint_failed", 0.0)]
    rows = {f"q_{n}_0": row([2], reward, status=status) for n, (status, reward) in enumerate(ended)}
    found = rollout_metrics(rows)
    assert (found["reward"], found["reward_finished"], found["left_out"]) == (0.5, 0.75, 0.25)
    nothing = rollout_metrics({"q_2_0": rows["q_2_0"]})
    assert (nothing["reward"], "reward_finished" in nothing) == (0.0, False)


def test_entropy_is_estimated_from_what_the_policy_sampled_and_unknown_of_a_teachers_replies() -> None:
    """Half a nat a token, over replies of 2, 4 and 3 tokens."""
    rows = {"q_0_0": row([2, 4], faults=[True, False]), "q_1_0": row([3])}
    found = rollout_metrics(rows)
    assert (found["sampled_tokens"], found["reply_tokens"], found["entropy"]) == (9, 3, 0.5)
    assert found["fault_rate"] == pytest.approx(1 / 3)
    taught = rollout_metrics({"q_0_0": row([2]) | {"surprise": [math.nan]}})
    assert taught["reply_tokens"] == 2
    assert "entropy" not in taught
    empty = rollout_metrics({"q_0_0": row([])})
    assert empty["sampled_tokens"] == 0
    assert not {"reply_tokens", "entropy"} & empty.keys()


def test_staleness_is_counted_in_updates_from_the_weights_that_a_step_trains() -> None:
    rows = {f"q_0_{n}": row([2]) | {"min_global_steps": version} for n, version in enumerate((4, 3, 4))}
    rows["q_1_0"] = row([]) | {"min_global_steps": 5}  # nothing was sampled
    rows["q_1_1"] = row([2]) | {"min_global_steps": 0, "surprise": [math.nan]}  # by a teacher
    assert staleness(rows, 5) == {"staleness": pytest.approx(1 / 3), "max_staleness": 1}
    assert staleness({"q_1_0": rows["q_1_0"]}, 5) == {}


def test_why_a_step_has_nothing_to_train_on_is_counted_over_rollouts() -> None:
    """The line counted rollouts whose nodes never called the policy as "(4 ok)"."""
    rows = {
        "q_0_0": row([], counted=False),
        "q_1_0": row([], counted=False),
        "q_2_0": row([2], counted=False),
        "q_2_1": row([2], counted=False, first=1),
        "q_3_0": row([2], counted=False, status="timed_out"),
    }
    said = why_nothing(rows)
    assert "2 without a call of a node that learns" in said
    assert "1 cut off" in said
    assert "1 timed_out" in said


def test_a_step_whose_rollouts_all_earn_the_same_teaches_nothing() -> None:
    rows = {"q_0_0": row([2]), "q_1_0": row([2]), "q_2_0": row([2], counted=False, status="timed_out")}
    one = {key: [CallSpan(0, 2, 0.0, 1.0)] for key in rows}
    assert only_reward(rows, one) == 0.0
    assert only_reward(rows | {"q_0_0": row([2], 1.0)}, one) is None
    assert only_reward(rows, one | {"q_0_0": [CallSpan(0, 2, -0.3, 1.0)]}) is None
    assert only_reward({"q_0_0": rows["q_0_0"]}, one) is None


def test_each_of_several_nodes_has_figures_of_its_own_calls() -> None:
    rows = {
        "q_0_0": row([2, 4], 1.0),
        "q_0_1": row([3], 1.0, first=2) | {"nodes": ["team/critic"]},
        "q_1_0": row([6]),
        "q_2_0": row([2], counted=False, status="timed_out"),
    }
    found = rollout_metrics(rows)
    assert (found["node/planner/calls"], found["node/planner/sampled_tokens"]) == (4, 14)
    assert (found["node/planner/reply_tokens"], found["node/planner/entropy"]) == (3.5, 0.5)
    assert (found["node/planner/reward"], found["node/team/critic/reward"]) == (0.5, 1.0)
    assert found["prefix_breaks"] == 1
    assert not any(name.startswith("node/") for name in rollout_metrics({"q_0_0": row([2])}))
