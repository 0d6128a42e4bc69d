"""Groups and turns that have a signal."""

from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.signal import groups_with_signal, turns_with_signal
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout


def test_a_group_of_equal_rewards_has_none() -> None:
    rollouts = [
        *(rollout(reward, group="differs") for reward in (1.0, 0.0)),
        *(rollout(1.0, group="equal") for _ in range(2)),
        rollout(0.0, group="alone"),
    ]
    assert groups_with_signal(rollouts) == (1, 2)
    assert turns_with_signal(rollouts) == (2, 5)
    assert groups_with_signal([]).value == turns_with_signal([]).value == 0.0


def test_a_turn_is_compared_with_the_siblings_that_reached_it() -> None:
    group = [rollout(1.0), rollout(0.0, lengths=[1, 1]), rollout(0.0, lengths=[1, 1])]
    assert groups_with_signal(group) == (1, 1)
    assert turns_with_signal(group) == (3, 5)


def test_a_turn_is_credited_with_the_return_from_it_on() -> None:
    """Rewards of earlier turns do not count for a later turn."""
    group = [rollout(0.0, lengths=[1, 1], turn_rewards=[paid, 0.5]) for paid in (0.0, 0.25)]
    assert groups_with_signal(group) == (1, 1)
    assert turns_with_signal(group) == (2, 4)


@given(ROLLOUTS)
def test_turns_with_a_signal_are_in_groups_with_one(
    rollouts: list[RolloutFacts],
) -> None:
    groups, turns = groups_with_signal(rollouts), turns_with_signal(rollouts)
    assert groups.signal <= groups.number
    assert turns.signal <= turns.number == sum(len(one.lengths) for one in rollouts)
    assert bool(groups.signal) == bool(turns.signal)
    moved = sum(any(one.advantage for one in of) for of in algorithm_of({"name": "flow-grpo"}).credit(rollouts))
    assert bool(moved) == bool(groups.signal)
