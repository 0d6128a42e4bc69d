"""Flow-GRPO by node: rewards are compared among the trajectories of a question in which a node spoke.

    A_i^n = (R_i - mean_k R_k) / std_k R_k         over the trajectories k of one question that called node n

Nodes of one policy differ in how often and when they are called. A node that is called in a part of the trajectories
only, such as a critic that the planner may ask, is compared with those alone, so that its advantage does not carry the
difference between calling it and not calling it, which is the planner's.

Source: "Dr. MAS: Stable Reinforcement Learning for Multi-Agent LLM Systems", 2026 (agent-wise normalisation).
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from agentflow.rl.algorithms.algorithm import Algorithm, RolloutFacts
from agentflow.rl.algorithms.estimators import per_trajectory, split_by_question, standardised


class PerNode(Algorithm):
    """Flow-GRPO with statistics for each node."""

    formula: ClassVar[str] = "A = (R − mean(R)) / (std(R) + 1e-06) over the question's trajectories with this node"

    name: Literal["per-node"] = "per-node"

    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return a value for each call, the same for all calls of a node in a rollout."""
        found = [[0.0] * len(rollout.lengths) for rollout in rollouts]
        for members in split_by_question(rollouts):
            for node in {node for member in members for node in rollouts[member].nodes}:
                speakers = [member for member in members if node in rollouts[member].nodes]
                compared = standardised(np.array([rollouts[member].total for member in speakers]))
                for member, value in zip(speakers, compared, strict=True):
                    for place, at in enumerate(rollouts[member].nodes):
                        if at == node:
                            found[member][place] = float(value)
        return found

    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return weights 1 / (G T |a|), as in Flow-GRPO."""
        return per_trajectory(rollouts)
