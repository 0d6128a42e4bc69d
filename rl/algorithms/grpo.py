"""GRPO over calls: every model call is a separate sample with its trajectory's reward.

    A_i = (R_i - mean_c R_c) / std_c R_c           over the calls c of all trajectories of one question

A trainer that is unaware of trajectories computes this. Long trajectories count more often, both in the mean and in the
loss, which averages over tokens. It serves as a baseline for Flow-GRPO.

Source: Z. Shao et al., "DeepSeekMath", 2024 (arXiv:2402.03300), section 4.1.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import every_call, split_by_question, standardised


class GRPO(Algorithm):
    """GRPO whose samples are calls."""

    formula: ClassVar[str] = "A = (R − mean(R)) / (std(R) + 1e-06) over the calls of the question"

    name: Literal["grpo"] = "grpo"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        found = [0.0] * len(rollouts)
        for members in split_by_question(rollouts):
            calls = [member for member in members for _ in rollouts[member].lengths]
            compared = standardised(np.array([rollouts[member].reward for member in calls]))
            for member, value in zip(calls, compared, strict=True):
                found[member] = float(value)
        return every_call(rollouts, found)

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the same weight for every token of the step, as verl's token-mean."""
        tokens = sum(sum(rollout.lengths) for rollout in rollouts)
        return [[1 / tokens] * len(rollout.lengths) for rollout in rollouts]
