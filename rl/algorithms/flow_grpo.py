"""Flow-GRPO: one advantage for all calls of a trajectory, normalised over the trajectories of its question.

    A_i = (R_i - mean_k R_k) / std_k R_k                       over the trajectories k of one question
    J = 1/G sum_i 1/T_i sum_t 1/|a_i^t| sum_j min(rho A_i, clip(rho, 1 - low, 1 + high) A_i) - beta KL(pi || pi_ref)

The mean and the deviation are over trajectories, not over calls: a trajectory of three calls counts as much as one of
one call.

Source: "In-the-Flow Agentic System Optimization for Effective Planning and Tool Use", 2025, section 3.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import compared


class FlowGRPO(Algorithm):
    """Flow-GRPO, the default."""

    formula: ClassVar[str] = "A = (R − mean(R)) / (std(R) + 1e-06) over the question's trajectories"

    name: Literal["flow-grpo"] = "flow-grpo"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return one value for all calls of a rollout."""
        return compared(rollouts, [1] * len(rollouts))

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return weights 1 / (G T |a|): equal for all trajectories, the calls of one, and the tokens of a call."""
        return [[1 / (len(rollouts) * len(one.lengths) * length) for length in one.lengths] for one in rollouts]
