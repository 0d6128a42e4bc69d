"""What the trainer makes of a step's rollouts, before verl computes anything."""

import math
import warnings
from typing import Any

import pytest

pytest.importorskip("verl")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # verl's imports
    from agentflow.rl.settings import compose_settings
    from agentflow.rl.trainer.credit import assign_credit
    from agentflow.rl.trainer.flow_trainer import _rollout_metrics, _why_nothing


def row(
    lengths: list[int],
    *,
    counted: bool = True,
    fate: str = "ok",
    faults: list[bool] | None = None,
    first: int = 0,
    earned: list[float] | None = None,
) -> dict[str, Any]:
    """`first` is the place of its first call in the trajectory, `earned` of all the trajectory's calls."""
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    return {
        "counted": counted,
        "fate": fate,
        "forward_tokens": 10 + sum(lengths),
        "unpacked_tokens": 10 * len(lengths) + sum(lengths),
        "spans": list(zip(starts, lengths, strict=True)),
        "places": list(range(first, first + len(lengths))),
        "faults": faults or [False] * len(lengths),
        "turn_rewards": earned or [0.0] * (first + len(lengths)),
        "turns": len(lengths),
        "tool_calls": len(lengths),
        "tool_errors": sum(faults or []),
    }


def credit(rows: dict[str, dict[str, Any]], rewards: dict[str, float], **flow: Any) -> Any:
    chosen = [f"flow.{name}={value}" for name, value in flow.items()]
    return assign_credit(rows, rewards, compose_settings("atlas-cpu", ["flow.penalty=0", *chosen]).flow)


def test_every_call_of_a_trajectory_has_its_advantage_wherever_its_row_is() -> None:
    """Rewards 1, 0, 1, 0 with 2, 1, 3 and 2 calls; the third trajectory is in two rows."""
    rows = {
        "q_0_0": row([4, 2]),
        "q_1_0": row([5]),
        "q_2_0": row([1, 3]),
        "q_2_1": row([2], first=2),
        "q_3_0": row([6, 1]),
    }
    rewards = {"q_0_0": 1.0, "q_1_0": 0.0, "q_2_0": 1.0, "q_2_1": 1.0, "q_3_0": 0.0}
    found = credit(rows, rewards)
    signs = {"q_0_0": 1, "q_1_0": -1, "q_2_0": 1, "q_2_1": 1, "q_3_0": -1}
    for key, calls in found.items():
        for _, _, advantage, _ in calls:
            assert advantage == pytest.approx(signs[key] * 0.866, abs=1e-3)
    assert [(start, length) for start, length, _, _ in found["q_0_0"]] == [(0, 4), (4, 2)]
    assert found["q_2_1"][0][3] == pytest.approx(1 / (4 * 3 * 2))
    assert sum(length * weight for calls in found.values() for _, length, _, weight in calls) == pytest.approx(1)


def test_statistics_over_calls_are_there_to_compare() -> None:
    """Rewards 1, 1, 0, 1, 1, 1, 0, 0: the mean is 5/8, the standard deviation 0.5175."""
    rows = {"q_0_0": row([4, 2]), "q_1_0": row([5]), "q_2_0": row([1, 3, 2]), "q_3_0": row([6, 1])}
    rewards = {"q_0_0": 1.0, "q_1_0": 0.0, "q_2_0": 1.0, "q_3_0": 0.0}
    found = credit(rows, rewards, statistics="call")
    assert {key: round(calls[0][2], 3) for key, calls in found.items()} == {
        "q_0_0": 0.725,
        "q_1_0": -1.208,
        "q_2_0": 0.725,
        "q_3_0": -1.208,
    }


def test_rollouts_that_are_left_out_are_absent_and_change_nothing() -> None:
    rows = {"q_0_0": row([2]), "q_1_0": row([2]), "q_2_0": row([2], counted=False, fate="endpoint_failed")}
    found = credit(rows, {"q_0_0": 1.0, "q_1_0": 0.0, "q_2_0": 0.0})
    assert set(found) == {"q_0_0", "q_1_0"}
    assert [calls[0][2] for calls in found.values()] == pytest.approx([0.707, -0.707], abs=1e-3)


def test_a_penalty_is_for_the_call_that_was_at_fault() -> None:
    rows = {"q_0_0": row([2, 2], faults=[True, False]), "q_1_0": row([2])}
    rewards = {"q_0_0": 1.0, "q_1_0": 0.0}
    without, taken = (credit(rows, rewards, penalty=penalty)["q_0_0"] for penalty in (0.0, 0.25))
    assert [a[2] - b[2] for a, b in zip(without, taken, strict=True)] == pytest.approx([0.25, 0.0])


def test_metrics_are_over_rollouts_and_a_reward_only_where_there_is_one() -> None:
    rows = {
        "q_0_0": row([2, 2]),
        "q_0_1": row([2, 2]),
        "q_1_0": row([2, 2], faults=[True, False]),
        "q_2_0": row([2], counted=False, fate="timed_out"),
    }
    found = _rollout_metrics(rows, {"q_0_0": 1.0, "q_0_1": 1.0, "q_1_0": 0.0, "q_2_0": 0.0})
    assert (found["rollouts"], found["reward"], found["fate/ok"], found["fate/timed_out"]) == (3, 0.5, 2, 1)
    assert found["tool_error_rate"] == pytest.approx(1 / 5)
    assert (found["rows"], found["prefix_breaks"]) == (4, 1)
    assert (found["forward_tokens"], found["unpacked_tokens"]) == (54, 84)
    nothing = _rollout_metrics({"q_2_0": rows["q_2_0"]}, {"q_2_0": 0.0})
    assert math.isnan(nothing["reward"])


def test_why_a_step_has_nothing_to_train_on_is_counted_over_rollouts() -> None:
    """It said "(4 ok)" of rollouts whose nodes never asked the policy."""
    rows = {
        "q_0_0": row([], counted=False),
        "q_1_0": row([], counted=False),
        "q_2_0": row([2], counted=False),
        "q_2_1": row([2], counted=False, first=1),
        "q_3_0": row([2], counted=False, fate="timed_out"),
    }
    said = _why_nothing(rows)
    assert "2 without a call of a node that learns" in said
    assert "1 cut off" in said
    assert "1 timed_out" in said


def test_by_turn_a_call_has_what_came_from_it_on() -> None:
    """The first earned 1 in its first turn; what was earned before a turn is none of that turn's."""
    rows = {"q_0_0": row([2, 2], earned=[1.0, 0.0]), "q_1_0": row([2]), "q_1_1": row([2], first=1)}
    settings = {"credit": "turn", "baseline": "leave-one-out", "scale": "none"}
    found = credit(rows, {"q_0_0": 0.0, "q_1_0": 1.0, "q_1_1": 1.0}, **settings)
    assert {key: [advantage for _, _, advantage, _ in calls] for key, calls in found.items()} == {
        "q_0_0": [0.0, -1.0],
        "q_1_0": [0.0],
        "q_1_1": [1.0],
    }


def test_by_trajectory_what_turns_earned_is_part_of_its_reward() -> None:
    rows = {"q_0_0": row([2, 2], earned=[0.5, 0.5]), "q_1_0": row([2])}
    found = credit(rows, {"q_0_0": 0.0, "q_1_0": 1.0})
    assert [advantage for calls in found.values() for _, _, advantage, _ in calls] == [0.0, 0.0, 0.0]


def test_forks_are_compared_from_their_fork_on() -> None:
    """A trunk of two turns and its fork, which has only its second turn in its row; and a trunk that nobody forked."""
    rows = {
        "q_0_0": row([4, 2]) | {"trunk": "q/0", "given": 0},
        "q_1_0": row([5], first=1) | {"trunk": "q/0", "given": 1},
        "q_2_0": row([3]) | {"trunk": "q/2", "given": 0},
    }
    found = credit(
        rows, {"q_0_0": 1.0, "q_1_0": 0.0, "q_2_0": 1.0}, credit="fork", forks=1, baseline="leave-one-out", scale="none"
    )
    assert found["q_0_0"] == [(0, 4, -0.5, pytest.approx((1 / 8 + 1 / 8) / 4)), (4, 2, 1.0, pytest.approx(1 / 16))]
    assert found["q_1_0"] == [(0, 5, -1.0, pytest.approx(1 / 40))]
    assert found["q_2_0"] == [(0, 3, 0.5, pytest.approx(1 / 6))]
