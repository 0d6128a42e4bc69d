"""GiGPO: Flow-GRPO's advantage of a trajectory, plus that of a call among all calls made in the same state.

    A_i^t = (R_i - mean_k R_k) / std_k R_k                  over the trajectories k of one question
          + omega (G_i^t - mean_s G_s) / std_s G_s          over the calls s of the question with the same prompt

    G_i^t = sum_{s >= t} gamma^(s - t) u_i^s + gamma^(T - t) r_i

r is the reward of the whole trajectory, u^s the reward of call s, T the last call. A call's prompt is the state that
it was made in, so that calls are compared that chose between the same continuations. A prompt that occurs once adds
nothing.

Source: "Group-in-Group Policy Optimization for LLM Agent Training", 2025 (arXiv:2505.10978), equations 6 to 9.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from agentflow.rl.algorithms.algorithm import Algorithm, Rollout
from agentflow.rl.algorithms.estimators import by_question, per_trajectory, split_by_question, standardised


class GiGPO(Algorithm):
    """Group-in-group policy optimisation."""

    formula: ClassVar[str] = "A = (R − mean(R)) / std(R) over its trajectories + omega · the same of G over the state"

    name: Literal["gigpo"] = "gigpo"
    omega: float = Field(default=1.0, ge=0)
    """Weight of the comparison within a state."""
    gamma: float = Field(default=0.95, gt=0, le=1)
    """Discount of a later call's reward."""

    def advantages(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return a value for each call."""
        whole = by_question(rollouts, standardised)
        found = [[value] * len(rollout.lengths) for value, rollout in zip(whole, rollouts, strict=True)]
        for members in split_by_question(rollouts):
            states: dict[str, list[tuple[int, int]]] = defaultdict(list)
            for member in members:
                for place, state in enumerate(rollouts[member].states):
                    states[state].append((member, place))
            returns = {member: self._returns(rollouts[member]) for member in members}
            for calls in states.values():
                compared = standardised(np.array([returns[member][place] for member, place in calls]))
                for (member, place), value in zip(calls, compared, strict=True):
                    found[member][place] += self.omega * float(value)
        return found

    def weights(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """Return weights 1 / (G T |a|), as in Flow-GRPO."""
        return per_trajectory(rollouts)

    def _returns(self, rollout: Rollout) -> list[float]:
        """Return the discounted return from each call on."""
        found, ahead = [], rollout.reward / self.gamma
        for reward in reversed(rollout.turn_rewards):
            ahead = reward + self.gamma * ahead
            found.append(ahead)
        return found[::-1]
