"""Supervised fine-tuning on accepted rollouts: their calls are imitated, those of all others are left out.

    A_i = 1 if R_i >= accept, else 0; 0 for a call that led to a format or tool error
    J = mean over the tokens of all calls with A = 1 of log pi

Without a teacher, the rollouts are the policy's own: rejection sampling, renewed at each step. With one, the teacher
plays the rollouts in the flow, and its replies are written in the chat template of the policy
(`agentflow.rl.trainer.teacher`). Validation always plays the policy.

Source: E. Zelikman et al., "STaR", 2022 (arXiv:2203.14465), without its rationalisation.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts


class SFT(Algorithm):
    """Supervised fine-tuning on accepted rollouts."""

    formula: ClassVar[str] = "A = 1 if R ≥ accept, else 0"
    supervised: ClassVar[bool] = True

    name: Literal["sft"] = "sft"
    teacher: str = ""
    """Model whose rollouts are imitated, as in `--planner`; "" for the policy itself."""
    accept: float = Field(default=1.0, gt=0, le=1)
    """Smallest reward of a rollout that is imitated."""

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return 1 for a call to imitate, else 0."""
        return [[float(one.reward >= self.accept and not fault) for fault in one.faults] for one in rollouts]

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return equal weights for all tokens to imitate, and 0 for the others."""
        imitated = self.advantages(rollouts)
        tokens = sum(
            length * one
            for rollout, row in zip(rollouts, imitated, strict=True)
            for length, one in zip(rollout.lengths, row, strict=True)
        )
        return [[one / max(tokens, 1) for one in row] for row in imitated]
