"""Credit by turn on a decision process that can be summed up: every group of trajectories, with its probability.

A run continues with probability p, at most three turns; each turn goes well with probability q. A turn that goes well
earns 1, a turn that does not costs 1, and a run of three turns is rewarded at its end. Both choices have one
parameter each, so that the true gradient is a derivative of two numbers.
"""

from collections.abc import Sequence
from itertools import product
from math import exp, prod

import numpy as np
import pytest
from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.estimators import Floats
from tests.unit.rl.algorithms.rollouts import ROLLOUTS, rollout

GROUP = 3
LONGEST = 3
THETA = (-1.0, -1.0)
"""Logits of continuing, and of success."""


class Path:
    """One trajectory: whether each turn went well; it stopped after the last."""

    def __init__(self, turns: tuple[bool, ...]) -> None:
        self.turns = turns
        self.earned = [1.0 if well else -1.0 for well in turns]
        self.reward = (0.0, -1.4, -1.4, 0.1)[len(turns)]

    def goes_on(self, turn: int) -> bool | None:
        """True if the run continued after `turn`; None if it could not."""
        return None if turn == LONGEST - 1 else turn < len(self.turns) - 1

    def probability(self, theta: Sequence[float]) -> float:
        on, well = sigmoid(theta[0]), sigmoid(theta[1])
        return prod(well if good else 1 - well for good in self.turns) * prod(
            on if goes else 1 - on for goes in map(self.goes_on, range(len(self.turns))) if goes is not None
        )

    def score(self, turn: int, theta: Sequence[float]) -> Floats:
        """The derivative of the log-probability of what was done in `turn`."""
        goes = self.goes_on(turn)
        return np.array(
            [0.0 if goes is None else goes - sigmoid(theta[0]), float(self.turns[turn]) - sigmoid(theta[1])]
        )


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


PATHS = [Path(turns) for length in range(1, LONGEST + 1) for turns in product((True, False), repeat=length)]


def true_gradient() -> Floats:
    """Gradient of the expected sum of rewards, by central differences."""

    def value(theta: Sequence[float]) -> float:
        return sum(path.probability(theta) * (path.reward + sum(path.earned)) for path in PATHS)

    step, base = 1e-5, np.array(THETA)
    return np.array([(value(base + step * one) - value(base - step * one)) / (2 * step) for one in np.eye(2)])


def expected(name: str) -> tuple[Floats, Floats]:
    """The mean and variance of an algorithm's estimate over all groups."""
    mean, square = np.zeros(2), np.zeros(2)
    for group in product(PATHS, repeat=GROUP):
        rollouts = [rollout(path.reward, lengths=[1] * len(path.turns), turn_rewards=path.earned) for path in group]
        found = algorithm_of({"name": name}).advantages(rollouts)
        gains = [
            advantage * path.score(turn, THETA)
            for path, own in zip(group, found, strict=True)
            for turn, advantage in enumerate(own)
        ]
        probability = prod(path.probability(THETA) for path in group)
        mean += probability * sum(gains) / GROUP
        square += probability * (sum(gains) / GROUP) ** 2
    return mean, square - mean**2


def test_it_is_unbiased_where_the_policy_decides_when_to_stop() -> None:
    """And varies less than credit by trajectory."""
    (mean, variance), (own_mean, own_variance) = expected("rloo"), expected("turn")
    assert own_mean == pytest.approx(true_gradient(), abs=1e-6)
    assert mean == pytest.approx(own_mean, abs=1e-6)
    assert own_variance.sum() < 0.8 * variance.sum()


@given(ROLLOUTS)
def test_without_rewards_of_turns_it_is_leave_one_out(rollouts: list[RolloutFacts]) -> None:
    by_turn, whole = (algorithm_of({"name": name}).advantages(rollouts) for name in ("turn", "rloo"))
    for turns, expected in zip(by_turn, whole, strict=True):
        assert turns == pytest.approx(expected, abs=1e-9)
