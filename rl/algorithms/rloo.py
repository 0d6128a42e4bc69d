"""RLOO: REINFORCE with the mean of the other trajectories as baseline, which keeps the gradient unbiased.

    A_i = R_i - 1/(G-1) sum_{k != i} R_k                       over the trajectories k of one question

Source: A. Ahmadian et al., "Back to basics", 2024 (arXiv:2402.14740), section 3.3.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import by_question, every_call, leave_one_out, per_token


class RLOO(Algorithm):
    """Leave-one-out over trajectories."""

    formula: ClassVar[str] = "A = R − mean(R of the other trajectories of the question)"

    name: Literal["rloo"] = "rloo"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        return every_call(rollouts, by_question(rollouts, leave_one_out))

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the same weight for every token of the step."""
        return per_token(rollouts)
