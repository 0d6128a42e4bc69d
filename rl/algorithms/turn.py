"""Credit by turn: the return from a turn on, minus the mean return of the question's other trajectories from that turn.

    A_i^t = R_i^t - 1/(G-1) sum_{k != i} R_k^t        R_k^t = r_k + sum_{s >= t} u_k^s

r is the reward of the whole trajectory, u^s the reward of turn s (0 after the last turn). The baseline of turn t is
over *all* other trajectories of the question, also those that ended before turn t. So it does not depend on this
trajectory's actions, and the gradient is unbiased (REINFORCE with a baseline; Williams 1992).

Comparing only trajectories that reached turn t biases the gradient if the policy decides when to stop, since reaching
turn t then depends on its actions (verl's RFC 7244). Without turn rewards, the advantages are those of RLOO.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import leave_one_out, per_trajectory, returns_from, split_by_question


class TurnCredit(Algorithm):
    """Leave-one-out over returns, turn by turn."""

    formula: ClassVar[str] = "A of a turn = R − mean(R of the others), R = r + the turn rewards from it on"

    name: Literal["turn"] = "turn"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return a value for each call."""
        found: list[list[float]] = [[] for _ in rollouts]
        for members in split_by_question(rollouts):
            longest = max(len(rollouts[member].lengths) for member in members)
            returns = np.array([returns_from(rollouts[member], longest) for member in members])
            gains = np.apply_along_axis(leave_one_out, 0, returns)
            for member, gain in zip(members, gains, strict=True):
                found[member] = [float(value) for value in gain[: len(rollouts[member].lengths)]]
        return found

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return weights 1 / (G T |a|), as in Flow-GRPO."""
        return per_trajectory(rollouts)
