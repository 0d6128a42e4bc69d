"""On-policy distillation: the policy samples in the flow, and a teacher's log-probabilities of its tokens teach it.

    A_j = log p_teacher(a_j) - log p_student(a_j) + reward_weight (A_i - penalty)     for token j of trajectory i
    A_i = (R_i - mean_k R_k) / std_k R_k                       over the trajectories k of one question
    J = mean over the tokens of min(rho A, clip(rho, 1 - low, 1 + high) A) - beta KL(pi || teacher)

The expectation of the first difference is -KL(student || teacher) at the token, so that every sampled token has a
signal, whether or not the rollout succeeded. It is discounted with 0: a token does not answer for what followed. The
penalty is that of a call that led to a format or tool error. The teacher takes the place of the reference model, so
that the KL term, and the metric `kl`, are those to the teacher. It must have the policy's tokenizer.

Source: R. Agarwal et al., "On-policy distillation of language models" (GKD), 2023 (arXiv:2306.13649), with the reverse
KL and on-policy data only; as a reward of policy gradients: K. Lu, Thinking Machines Lab, "On-Policy Distillation",
2025.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from agentflow.rl.algorithms.algorithm import Algorithm, Credit, RolloutFacts
from agentflow.rl.algorithms.estimators import by_question, every_call, per_token, standardised

Floats = npt.NDArray[np.float32]


class OPD(Algorithm):
    """On-policy distillation with the reverse KL."""

    formula: ClassVar[str] = "A of a token = log p(teacher) − log p(student) + reward_weight · (R − mean(R)) / std(R)"

    name: Literal["opd"] = "opd"
    teacher: str = Field(default="embedded", min_length=1)
    """Weights of the teacher: a Hugging Face folder, or an embedded model; `embedded` is the shipped planner."""
    reward_weight: float = Field(default=0.0, ge=0)
    """Factor of the reward's advantage; 0 learns from the teacher alone."""

    @property
    def compares(self) -> bool:
        """Return whether rewards have a part in the advantage."""
        return self.reward_weight > 0

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the reward's advantage of each call, before `reward_weight`: one value for all calls of a rollout."""
        return every_call(rollouts, by_question(rollouts, standardised))

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the same weight for every token of the step."""
        return per_token(rollouts)

    def credit(self, rollouts: Sequence[RolloutFacts]) -> list[list[Credit]]:
        """Return the reward's part of the credit of each call, to which `token_advantages` adds the teacher's."""
        return [
            [Credit(self.reward_weight * advantage, weight) for advantage, weight in calls]
            for calls in super().credit(rollouts)
        ]

    def token_advantages(
        self, advantages: Floats, student: Floats, teacher: Floats, mask: npt.NDArray[np.bool_]
    ) -> Floats:
        """Add the teacher's signal to the advantages of tokens; 0 outside the mask.

        Args:
            advantages: The reward's part, any shape.
            student: Log-probabilities of the tokens under the policy that sampled them, same shape.
            teacher: Log-probabilities of the same tokens under the teacher, same shape.
            mask: Whether each token is trained on, same shape.
        """
        return np.where(mask, advantages + (teacher - student), np.float32(0))
