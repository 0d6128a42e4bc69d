"""Credit of every call in a step's rows."""

from typing import Any

import pytest

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.rollout.batch import CallSpan, advantages_of, assign_credit, signal_of
from agentflow.rl.rollout.rollout import rewarded
from agentflow.tools.coded_error import Cause
from tests.unit.rl.rows import row


def credit(
    rows: dict[str, dict[str, Any]], rewards: dict[str, float], name: str = "flow-grpo"
) -> dict[str, list[CallSpan]]:
    return assign_credit(rows, rewards, algorithm_of({"name": name}))


def test_every_call_of_a_trajectory_has_its_advantage_wherever_its_row_is() -> None:
    """Rewards 1, 0, 1, 0 with 2, 1, 3 and 2 calls; the third trajectory is in two rows."""
    rows = {
        "q_0_0": row([4, 2]),
        "q_1_0": row([5]),
        "q_2_0": row([1, 3], earned=[0.0, 0.0, 0.0]),
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


def test_rollouts_that_are_left_out_are_absent_and_change_nothing() -> None:
    rows = {"q_0_0": row([2]), "q_1_0": row([2]), "q_2_0": row([2], counted=False, status="endpoint_failed")}
    found = credit(rows, {"q_0_0": 1.0, "q_1_0": 0.0, "q_2_0": 0.0})
    assert set(found) == {"q_0_0", "q_1_0"}
    assert [calls[0][2] for calls in found.values()] == pytest.approx([0.707, -0.707], abs=1e-3)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("too_long", "policy"),
        ("policy_failed", "policy"),
        ("tool_failed", "tool"),
        ("crashed", "agent"),
        ("timed_out", "limit"),
        *((status, None) for status in ("endpoint_failed", "undecided", "bad_reward")),
    ],
)
def test_a_failure_counts_as_zero_where_its_cause_is_named(status: str, cause: Cause | None) -> None:
    causes: set[Cause] = {"policy", "tool", "agent", "limit"}
    assert rewarded(status, causes) == (cause is not None)
    assert not rewarded(status, causes - {cause})  # type: ignore[arg-type]
    assert rewarded("ok", ())


def test_advantages_are_told_by_rollout_whatever_its_rows() -> None:
    rows = {
        "q_0_0": row([2]) | {"name": "q/0"},
        "q_1_1": row([2], first=1) | {"name": "q/1"},
        "q_1_0": row([2], earned=[0, 0]) | {"name": "q/1"},
        "q_2_0": row([2], counted=False) | {"name": "q/2"},
    }
    found = advantages_of(rows, credit(rows, {"q_0_0": 1.0, "q_1_0": 0.0, "q_1_1": 0.0, "q_2_0": 0.0}, "rloo"))
    assert found == {"q/0": [1.0], "q/1": [-1.0, -1.0]}


def test_the_order_in_which_rollouts_ended_changes_no_bit() -> None:
    rewards = [0.1, 0.7, 0.2, 0.3, 0.9]
    rows = {f"q_{n}_0": row([3]) | {"name": f"q/{n}"} for n in range(5)}
    told = {f"q_{n}_0": reward for n, reward in enumerate(rewards)}
    assert credit(dict(reversed(rows.items())), told) == credit(rows, told)


def test_the_signal_is_of_whole_trajectories_that_are_trained_on() -> None:
    """The second trajectory is in two rows; the third differs, and is left out."""
    rows = {
        "q_0_0": row([2]),
        "q_1_0": row([2], earned=[0, 0]),
        "q_1_1": row([2], first=1),
        "q_2_0": row([2], counted=False),
    }
    rewards = {"q_0_0": 1.0, "q_1_0": 1.0, "q_1_1": 1.0, "q_2_0": 0.0}
    assert signal_of(rows, rewards) == {"groups_with_signal": 0.0, "turns_with_signal": 0.0}
    told = signal_of(rows, rewards | {"q_0_0": 0.0})
    assert told == {"groups_with_signal": 1.0, "turns_with_signal": pytest.approx(2 / 3)}
