"""REINFORCE++: mean and deviation are over the whole step, so groups with equal rewards have a signal too.

    A_i = (R_i - mean R) / std R                               over all trajectories of the step

Source: J. Hu et al., "REINFORCE++", 2025 (arXiv:2501.03262), section 3.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from agentflow.rl.algorithms.algorithm import Algorithm, Rollout
from agentflow.rl.algorithms.estimators import every_call, per_token, standardised


class ReinforcePlusPlus(Algorithm):
    """REINFORCE++ over trajectories."""

    formula: ClassVar[str] = "A = (R − mean(R)) / (std(R) + 1e-06) over all trajectories of the step"

    name: Literal["reinforce++"] = "reinforce++"

    def advantages(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        compared = standardised(np.array([rollout.total for rollout in rollouts]))
        return every_call(rollouts, [float(value) for value in compared])

    def weights(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return the same weight for every token of the step."""
        return per_token(rollouts)
