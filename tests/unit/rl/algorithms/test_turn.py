"""Credit by turn on a decision process that can be summed up: every group of trajectories, with its probability.

A run continues with probability p, at most three turns; each turn goes well with probability q. A turn that goes well
earns 1, a turn that does not costs 1, and a run of three turns is rewarded at its end. Both choices have one
parameter each, so that the true gradient is a derivative of two numbers.
"""

from collections.abc import Callable
from itertools import product
from math import log, prod

import numpy as np
import pytest
from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.estimators import Floats
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

GROUP = 3
LONGEST = 3
THETA = np.array([-1.0, -1.0])
"""Logits of continuing, and of success."""

Turns = tuple[bool, ...]
"""A trajectory: whether each turn went well; it stopped after the last."""

ALL: list[Turns] = [turns for length in range(1, LONGEST + 1) for turns in product((True, False), repeat=length)]
REWARDS = (0.0, -1.4, -1.4, 0.1)
"""Reward of a trajectory, by its number of turns."""


def earned(turns: Turns) -> list[float]:
    return [1.0 if well else -1.0 for well in turns]


def chance(turns: Turns, turn: int, theta: Floats) -> float:
    """The probability of what was done in `turn`."""
    on, well = 1 / (1 + np.exp(-theta))
    goes = 1.0 if turn == LONGEST - 1 else on if turn < len(turns) - 1 else 1 - on
    return float(goes * (well if turns[turn] else 1 - well))


def probability(turns: Turns, theta: Floats) -> float:
    return prod(chance(turns, turn, theta) for turn in range(len(turns)))


def gradient(value: Callable[[Floats], float]) -> Floats:
    """By central differences."""
    step = 1e-5
    return np.array([(value(THETA + step * one) - value(THETA - step * one)) / (2 * step) for one in np.eye(2)])


def expected(name: str) -> tuple[Floats, Floats]:
    """The mean and variance of an algorithm's estimate over all groups."""
    mean, square = np.zeros(2), np.zeros(2)
    scores = {
        (turns, turn): gradient(lambda theta, turns=turns, turn=turn: log(chance(turns, turn, theta)))  # type: ignore[misc]
        for turns in ALL
        for turn in range(len(turns))
    }
    for group in product(ALL, repeat=GROUP):
        rollouts = [rollout(REWARDS[len(one)], lengths=[1] * len(one), turn_rewards=earned(one)) for one in group]
        found = algorithm_of({"name": name}).advantages(rollouts)
        gains = [
            advantage * scores[turns, turn]
            for turns, own in zip(group, found, strict=True)
            for turn, advantage in enumerate(own)
        ]
        weight = prod(probability(turns, THETA) for turns in group)
        mean += weight * sum(gains) / GROUP
        square += weight * (sum(gains) / GROUP) ** 2
    return mean, square - mean**2


def test_it_is_unbiased_where_the_policy_decides_when_to_stop() -> None:
    """And varies less than credit by trajectory."""
    (mean, variance), (own_mean, own_variance) = expected("rloo"), expected("turn")
    returns = {turns: REWARDS[len(turns)] + sum(earned(turns)) for turns in ALL}
    true = gradient(lambda theta: sum(probability(turns, theta) * value for turns, value in returns.items()))
    assert own_mean == pytest.approx(true, abs=1e-6)
    assert mean == pytest.approx(own_mean, abs=1e-6)
    assert own_variance.sum() < 0.8 * variance.sum()


@given(ROLLOUTS)
def test_without_rewards_of_turns_it_is_leave_one_out(rollouts: list[RolloutFacts]) -> None:
    by_turn, whole = (algorithm_of({"name": name}).advantages(rollouts) for name in ("turn", "rloo"))
    for turns, expected in zip(by_turn, whole, strict=True):
        assert turns == pytest.approx(expected, abs=1e-9)
