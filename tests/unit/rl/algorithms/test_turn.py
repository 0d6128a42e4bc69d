"""Credit by turn on a decision process that can be summed up: every group of trajectories, with its probability.

A run continues with probability p, at most three turns; each turn goes well with probability q. A turn that goes well
earns 1, a turn that does not costs 1, and a run of three turns is rewarded at its end. Both choices have one
parameter each, so that the true gradient is a derivative of two numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import exp, prod

import numpy as np
import pytest
from hypothesis import given

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.algorithms.algorithm import Rollout
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


def groups() -> Iterator[tuple[float, tuple[Path, ...]]]:
    for group in product(PATHS, repeat=GROUP):
        yield prod(path.probability(THETA) for path in group), group


Estimator = Callable[[Sequence[Path]], list[Floats]]


def credited(name: str, group: Sequence[Path]) -> list[Floats]:
    rollouts = [rollout(path.reward, lengths=[1] * len(path.turns), turn_rewards=path.earned) for path in group]
    return [np.array(found) for found in algorithm_of({"name": name}).advantages(rollouts)]


def ours(group: Sequence[Path]) -> list[Floats]:
    return credited("turn", group)


def by_trajectory(group: Sequence[Path]) -> list[Floats]:
    return credited("rloo", group)


def by_turn_index(group: Sequence[Path]) -> list[Floats]:
    """The naive one: a turn is compared with the same turn of those that came as far."""
    found = [np.zeros(len(path.turns)) for path in group]
    for turn in range(LONGEST):
        there = [row for row, path in enumerate(group) if len(path.turns) > turn]
        returns = [group[row].reward + sum(group[row].earned[turn:]) for row in there]
        for row, value in zip(there, returns, strict=True):
            found[row][turn] = value - sum(returns) / len(returns) if len(there) > 1 else 0.0
    return found


def expected(estimator: Estimator) -> tuple[Floats, Floats]:
    """The estimate's mean and variance over all groups."""
    mean, square = np.zeros(2), np.zeros(2)
    for probability, group in groups():
        found = estimator(group)
        estimate = sum(
            found[row][turn] * path.score(turn, THETA)
            for row, path in enumerate(group)
            for turn in range(len(path.turns))
        ) / len(group)
        mean += probability * estimate
        square += probability * estimate**2
    return mean, square - mean**2


def test_it_is_unbiased_where_the_policy_decides_when_to_stop() -> None:
    mean, _ = expected(ours)
    assert mean == pytest.approx(true_gradient(), abs=1e-6)


def test_comparing_turns_by_their_index_is_biased() -> None:
    """It would learn to stop where continuing is better: the true value is +0.019, its mean -0.011."""
    mean, _ = expected(by_turn_index)
    assert mean[0] < -0.01 < 0.01 < true_gradient()[0]


def test_it_varies_less_than_credit_by_trajectory() -> None:
    (mean, variance), (own_mean, own_variance) = expected(by_trajectory), expected(ours)
    assert mean == pytest.approx(own_mean, abs=1e-6)
    assert own_variance.sum() < 0.8 * variance.sum()


@given(ROLLOUTS)
def test_without_rewards_of_turns_it_is_leave_one_out(rollouts: list[Rollout]) -> None:
    by_turn, whole = (algorithm_of({"name": name}).advantages(rollouts) for name in ("turn", "rloo"))
    for turns, expected in zip(by_turn, whole, strict=True):
        assert turns == pytest.approx(expected, abs=1e-9)
