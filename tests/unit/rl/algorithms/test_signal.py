"""Groups and turns that have a signal."""

import pytest
from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.signal import groups_with_signal, turns_with_signal
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout


@pytest.mark.parametrize(
    ("rollouts", "groups", "turns"),
    [
        ([], (0, 0), (0, 0)),
        (
            [rollout(1.0), rollout(0.0), *[rollout(1.0, group="equal")] * 2, rollout(0.0, group="alone")],
            (1, 2),
            (2, 5),
        ),
        # A turn is compared with the siblings that reached it.
        ([rollout(1.0), *[rollout(0.0, lengths=[1, 1])] * 2], (1, 1), (3, 5)),
    ],
)
def test_groups_and_turns_that_differ(
    rollouts: list[RolloutFacts], groups: tuple[int, int], turns: tuple[int, int]
) -> None:
    assert (groups_with_signal(rollouts), turns_with_signal(rollouts)) == (groups, turns)
    assert groups_with_signal(rollouts).value == (groups[0] / groups[1] if groups[1] else 0.0)


@given(ROLLOUTS)
def test_turns_with_a_signal_are_in_groups_with_one(rollouts: list[RolloutFacts]) -> None:
    groups, turns = groups_with_signal(rollouts), turns_with_signal(rollouts)
    assert groups.signal <= groups.number
    assert turns.signal <= turns.number == sum(len(one.lengths) for one in rollouts)
    assert bool(groups.signal) == bool(turns.signal)
    moved = sum(any(one.advantage for one in of) for of in algorithm_of({"name": "flow-grpo"}).credit(rollouts))
    assert bool(moved) == bool(groups.signal)
