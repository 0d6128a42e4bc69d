"""Interface of an algorithm, which assigns an advantage and a weight to each model call of a step's rollouts.

    J = sum over calls of  weight * sum over tokens of  min(rho A, clip(rho, 1 - low, 1 + high) A)  -  beta KL

All tokens of a call have its advantage A and its weight. The weights of all tokens of a step sum to 1, so that the loss
does not depend on how a step is split into rows, micro-batches and ranks (`agentflow.rl.trainer.loss`). Only rollouts
that are trained on are passed in: masked rollouts do not affect any mean or deviation.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True)
class RolloutFacts:
    """Input of an algorithm for one rollout. Invariant: the sequences have one entry per model call."""

    group: str
    """Name of the question; rollouts of one question are compared with each other."""
    reward: float
    """Reward of the whole trajectory."""
    lengths: Sequence[int]
    """Number of sampled tokens of each call, at least 1."""
    faults: Sequence[bool]
    """For each call, whether it led to a format or tool error."""


class Credit(NamedTuple):
    """The credit of one model call."""

    advantage: float
    weight: float
    """Weight of each sampled token of the call."""


class Algorithm(BaseModel, ABC):
    """Settings and formula of one algorithm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    formula: ClassVar[str]
    """Formula of the advantage, shown in the viewer and in docs/concepts.md."""
    supervised: ClassVar[bool] = False
    """True if the loss is the mean of -A log pi, without a ratio, a clip or a KL term, and the rollouts of a question
    are not compared."""

    penalty: float = Field(default=0.0, ge=0)
    """Subtracted from the advantage of a call that led to a format or tool error, unless the loss is supervised."""

    @abstractmethod
    def advantages(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the advantage of each call of each rollout, before the penalty [rollouts][calls]."""

    @abstractmethod
    def weights(self, rollouts: Sequence[RolloutFacts]) -> list[list[float]]:
        """Return the weight of each token of each call of each rollout [rollouts][calls]."""

    def credit(self, rollouts: Sequence[RolloutFacts]) -> list[list[Credit]]:
        """Return the credit of each call of each rollout [rollouts][calls]."""
        if not rollouts:
            return []
        penalty = 0.0 if self.supervised else self.penalty
        return [
            [
                Credit(advantage - penalty * fault, weight)
                for advantage, weight, fault in zip(advantages, weights, rollout.faults, strict=True)
            ]
            for rollout, advantages, weights in zip(
                rollouts, self.advantages(rollouts), self.weights(rollouts), strict=True
            )
        ]
