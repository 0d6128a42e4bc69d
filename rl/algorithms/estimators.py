"""Functions shared by the algorithms: comparison of a group's rewards."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentflow.rl.algorithms.algorithm import RolloutFacts

Floats = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation, as in verl."""


def standardised(rewards: Floats, times: Sequence[int]) -> Floats:
    """Return rewards minus their mean, divided by the standard deviation (n - 1) [n]; zeros if all are equal.

    The mean and the deviation count each reward as often as `times` says.
    """
    counted = np.repeat(rewards, times)
    if not np.ptp(counted):
        return np.zeros(len(rewards))
    found: Floats = (rewards - counted.mean()) / (counted.std(ddof=1) + EPSILON)
    return found


def compared(rollouts: Sequence[RolloutFacts], times: Sequence[int]) -> list[list[float]]:
    """Return for each call the standardised reward of its rollout, among those of its question [rollouts][calls]."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, rollout in enumerate(rollouts):
        groups[rollout.group].append(position)
    found = np.zeros(len(rollouts))
    for members in groups.values():
        rewards = np.array([rollouts[member].reward for member in members])
        found[members] = standardised(rewards, [times[member] for member in members])
    return [[float(value)] * len(rollout.lengths) for rollout, value in zip(rollouts, found, strict=True)]
