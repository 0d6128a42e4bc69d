"""Dr. GRPO: GRPO without its two biases, the division by the deviation and by the length.

    A_i = R_i - mean_k R_k                                     over the trajectories k of one question

Source: Z. Liu et al., "Understanding R1-Zero-like training", 2025 (arXiv:2503.20783), section 3.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentflow.rl.algorithms.algorithm import Algorithm, Rollout
from agentflow.rl.algorithms.estimators import by_question, centred, every_call, per_token


class DrGRPO(Algorithm):
    """Dr. GRPO over trajectories."""

    formula: ClassVar[str] = "A = R − mean(R) over the question's trajectories"

    name: Literal["dr-grpo"] = "dr-grpo"

    def advantages(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        return every_call(rollouts, by_question(rollouts, centred))

    def weights(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return the same weight for every token of the step."""
        return per_token(rollouts)
