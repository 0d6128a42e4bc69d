"""Credit turn by turn: what a turn could still earn, against what the other trajectories of its question earned.

    A_i^t = R_i^t - 1/(G-1) sum_{k != i} R_k^t        R_k^t = r_k + sum_{s >= t} u_k^s

r is the reward of the whole trajectory, u^s what turn s earned by itself (0 after the last turn). The baseline of turn
t is over *all* other trajectories of the question, those that had stopped before turn t included. So it does not depend
on what this trajectory did, and the policy gradient keeps its expectation (REINFORCE with a baseline; Williams 1992).

To compare turns by their index, among the trajectories that came as far, does not keep it where the policy decides when
to stop: who came as far is then part of what was done, and a turn that is alone at its index teaches nothing at all
(verl's RFC 7244). Without rewards of single turns this is leave-one-out over trajectories (RLOO, arXiv:2402.14740).
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from agentflow.rl.flow_grpo import Floats


def turn_advantages(
    rewards: Sequence[float], turn_rewards: Sequence[Sequence[float]], groups: Sequence[str]
) -> list[Floats]:
    """The advantage of every turn of each trajectory [n], as many as it has turns.

    Args:
        rewards: Of each whole trajectory [n].
        turn_rewards: Of each trajectory, what each of its turns earned [n][turns].
        groups: The question that each trajectory answers [n].

    A trajectory that is alone in its group has nothing to be compared with: 0.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(groups):
        members[name].append(position)
    found: list[Floats] = [np.zeros(len(turns)) for turns in turn_rewards]
    for group in members.values():
        if len(group) < 2:
            continue
        longest = max(len(turn_rewards[position]) for position in group)
        returns = np.zeros((len(group), longest))
        for row, position in enumerate(group):
            returns[row] = rewards[position] + _to_go(turn_rewards[position], longest)
        gains = returns - (returns.sum(axis=0) - returns) / (len(group) - 1)
        for row, position in enumerate(group):
            found[position] = gains[row, : len(turn_rewards[position])]
    return found


def _to_go(earned: Sequence[float], longest: int) -> Floats:
    """What is still earned from each turn on [longest]."""
    padded = np.zeros(longest)
    padded[: len(earned)] = earned
    return np.cumsum(padded[::-1])[::-1]
