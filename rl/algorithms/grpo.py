"""GRPO over calls: every model call is a separate sample with its trajectory's reward.

    A_i = (R_i - mean_c R_c) / std_c R_c           over the calls c of all trajectories of one question

A trainer that is unaware of trajectories computes this. Long trajectories count more often, both in the mean and in the
loss, which averages over tokens. It serves as a baseline for Flow-GRPO.

Source: Z. Shao et al., "DeepSeekMath", 2024 (arXiv:2402.03300), section 4.1.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import compared


class GRPO(Algorithm):
    """GRPO whose samples are calls."""

    formula: ClassVar[str] = "A = (R − mean(R)) / (std(R) + 1e-06) over the calls of the question"

    name: Literal["grpo"] = "grpo"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        return compared(rollouts, [len(one.lengths) for one in rollouts])

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the same weight for every token of the step, as verl's token-mean."""
        tokens = sum(sum(rollout.lengths) for rollout in rollouts)
        return [[1 / tokens] * len(rollout.lengths) for rollout in rollouts]
