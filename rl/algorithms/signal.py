"""Signal of a step: groups and turns whose rollouts came out differently, and can therefore be compared.

- A group, the rollouts of one question, has a signal if their rewards are not all equal.
- A turn t of a rollout, a model call that is trained on, has a signal if the rewards of all rollouts of its question
  that have a turn t are not all equal. Later turns that only the failed rollouts of a group reached have none.

Both describe a step's data and do not depend on the algorithm that is trained with. As a baseline, a comparison among
the rollouts that reached a turn would be biased, since the policy decides when to stop; here it only counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agentflow.rl.algorithms.algorithm import RolloutFacts
from agentflow.rl.algorithms.estimators import split_by_question


class Share(NamedTuple):
    """A number of groups or turns, and how many of them have a signal."""

    signal: int
    number: int

    @property
    def value(self) -> float:
        """Return the share, 0 to 1; 0 of none."""
        return self.signal / self.number if self.number else 0.0


def groups_with_signal(rollouts: Sequence[RolloutFacts]) -> Share:
    """Count the groups of at least two rollouts, and those that have a signal."""
    rewards = [[rollouts[member].reward for member in members] for members in split_by_question(rollouts)]
    several = [one for one in rewards if len(one) > 1]
    return Share(sum(min(one) < max(one) for one in several), len(several))


def turns_with_signal(rollouts: Sequence[RolloutFacts]) -> Share:
    """Count the turns of all rollouts, and those that have a signal."""
    found = 0
    for members in split_by_question(rollouts):
        group = [rollouts[member] for member in members]
        for turn in range(max(len(one.lengths) for one in group)):
            reached = [one.reward for one in group if len(one.lengths) > turn]
            found += len(reached) * (min(reached) < max(reached))
    return Share(found, sum(len(rollout.lengths) for rollout in rollouts))
