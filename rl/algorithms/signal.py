"""Signal of a step: groups of rollouts that came out differently, and can therefore be compared.

A group, the rollouts of one question, has a signal if their rewards are not all equal. This describes a step's data and
does not depend on the algorithm that is trained with.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Share(NamedTuple):
    """A number of groups, and how many of them have a signal."""

    signal: int
    number: int

    @property
    def value(self) -> float:
        """Return the share, 0 to 1; 0 of none."""
        return self.signal / self.number if self.number else 0.0


def groups_with_signal(rewards: Iterable[tuple[str, float]]) -> Share:
    """Count groups of at least two rollouts, and those with a signal, given group and reward of each rollout."""
    groups = defaultdict[str, list[float]](list)
    for group, reward in rewards:
        groups[group].append(reward)
    several = [one for one in groups.values() if len(one) > 1]
    return Share(sum(min(one) < max(one) for one in several), len(several))
