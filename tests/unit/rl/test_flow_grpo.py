import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.flow_grpo import advantages, token_weights

REWARDS = [1.0, 0.0, 1.0, 0.0]
TURNS = [2, 1, 3, 2]


def test_by_hand_every_turn_has_its_trajectorys_advantage() -> None:
    """Rewards 1, 0, 1, 0: half over the standard deviation 0.57735."""
    assert advantages(REWARDS, ["q"] * 4, [True] * 4) == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=1e-3)


def test_statistics_are_not_over_turns() -> None:
    """The reference normalised over rows, one a turn: the same rewards gave 0.725 and -1.208 (its bug T3)."""
    rows = [reward for reward, turns in zip(REWARDS, TURNS, strict=True) for _ in range(turns)]
    over_rows = advantages(rows, ["q"] * len(rows), [True] * len(rows))
    assert sorted({round(float(value), 3) for value in over_rows}) == [-1.208, 0.725]
    assert advantages(REWARDS, ["q"] * 4, [True] * 4)[0] == pytest.approx(0.866, abs=1e-3)


def test_one_question_does_not_change_another() -> None:
    both = advantages([*REWARDS, 1.0, 1.0, 0.0], ["q"] * 4 + ["p"] * 3, [True] * 7)
    assert both[:4] == pytest.approx(advantages(REWARDS, ["q"] * 4, [True] * 4))


def test_what_is_left_out_changes_no_statistics() -> None:
    """A judge failure counted as reward 0 in the reference (its bug T8)."""
    found = advantages([*REWARDS, 0.0], ["q"] * 5, [True] * 4 + [False])
    assert found[:4] == pytest.approx(advantages(REWARDS, ["q"] * 4, [True] * 4))
    assert found[4] == 0


def test_nothing_to_compare() -> None:
    assert advantages([1.0], ["q"], [True]).tolist() == [0.0]
    assert advantages([1.0, 1.0], ["q", "q"], [True, True]).tolist() == [0.0, 0.0]


def test_leave_one_out_without_scale_is_rloo() -> None:
    """1 minus the mean of the other three, 1/3; 0 minus theirs, 2/3."""
    found = advantages(REWARDS, ["q"] * 4, [True] * 4, baseline="leave-one-out", scale="none")
    assert found == pytest.approx([2 / 3, -2 / 3, 2 / 3, -2 / 3])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1), st.booleans()), min_size=1, max_size=24))
def test_advantages_of_a_group_sum_to_zero(rollouts: list[tuple[str, float, bool]]) -> None:
    groups, rewards, counted = (list(column) for column in zip(*rollouts, strict=True))
    found = advantages(rewards, groups, counted)
    for name in set(groups):
        assert sum(value for value, group in zip(found, groups, strict=True) if group == name) == pytest.approx(
            0, abs=1e-6
        )


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 40)), min_size=1, max_size=30))
def test_every_trajectory_weighs_the_same(calls: list[tuple[str, int]]) -> None:
    trajectories, lengths = (list(column) for column in zip(*calls, strict=True))
    weights = token_weights(trajectories, lengths)
    totals = dict.fromkeys(trajectories, 0.0)
    for name, length, weight in zip(trajectories, lengths, weights, strict=True):
        totals[name] += length * weight
    assert list(totals.values()) == pytest.approx([1 / len(totals)] * len(totals))


def test_averages_by_hand() -> None:
    """Two trajectories, calls of 2 and 3 tokens and of 4: 1/(2*2*2), 1/(2*2*3) and 1/(2*1*4); or 1/9 for each token."""
    assert token_weights(["a", "a", "b"], [2, 3, 4]) == pytest.approx([1 / 8, 1 / 12, 1 / 8])
    assert token_weights(["a", "a", "b"], [2, 3, 4], averaging="token") == pytest.approx(np.full(3, 1 / 9))
