"""Functions shared by the algorithms: comparison of a group's rewards."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from agentflow.rl.algorithms.algorithm import RolloutFacts

Floats = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation, as in verl."""


def standardised(rewards: Floats) -> Floats:
    """Return rewards minus their mean, divided by the standard deviation (n - 1) [n]; zeros if all are equal."""
    if not np.ptp(rewards):
        return np.zeros(len(rewards))
    found: Floats = (rewards - rewards.mean()) / (rewards.std(ddof=1) + EPSILON)
    return found


def split_by_question(rollouts: Sequence[RolloutFacts]) -> list[list[int]]:
    """Return the positions of the rollouts of each question."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, rollout in enumerate(rollouts):
        groups[rollout.group].append(position)
    return list(groups.values())


def by_question(rollouts: Sequence[RolloutFacts], compare: Callable[[Floats], Floats]) -> list[float]:
    """Apply `compare` to the rewards of each question's rollouts. Returns a value for each rollout."""
    found = np.zeros(len(rollouts))
    for members in split_by_question(rollouts):
        found[members] = compare(np.array([rollouts[member].reward for member in members]))
    return [float(value) for value in found]


def every_call(rollouts: Sequence[RolloutFacts], values: Sequence[float]) -> list[list[float]]:
    """Repeat the value of each rollout for each of its calls."""
    return [[value] * len(rollout.lengths) for rollout, value in zip(rollouts, values, strict=True)]
