"""The interface of an algorithm: from the rollouts of a step to an advantage and a weight for each model call.

    J = sum over calls of  weight * sum over tokens of  min(rho A, clip(rho, 1 - low, 1 + high) A)  -  beta KL

All tokens of a call have its advantage A and its weight; the weights of all tokens of a step sum to 1, so that the loss
is the same however a step is cut into rows, micro-batches and ranks (`agentflow.rl.trainer.loss`). Only rollouts that
are trained on are passed in: a masked rollout has no part in any mean or deviation.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True)
class Rollout:
    """One rollout as an algorithm sees it. Invariant: the three sequences have an entry for each model call."""

    group: str
    """Name of the question; rollouts of one question are compared with each other."""
    reward: float
    """Reward of the whole trajectory."""
    lengths: Sequence[int]
    """Number of sampled tokens of each call, at least 1."""
    turn_rewards: Sequence[float]
    """Reward of each call by itself, beside `reward`."""
    faults: Sequence[bool]
    """Whether each call led to a format or tool error."""

    @property
    def total(self) -> float:
        """The trajectory's reward and those of its turns."""
        return self.reward + sum(self.turn_rewards)


class Credit(NamedTuple):
    """The credit of one model call."""

    advantage: float
    weight: float
    """Weight of each sampled token of the call."""


class Algorithm(BaseModel, ABC):
    """Settings and formula of one algorithm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    formula: ClassVar[str]
    """The advantage, as the viewer prints it."""

    penalty: float = Field(default=0.0, ge=0)
    """Subtracted from the advantage of a call that led to a format or tool error."""

    @abstractmethod
    def advantages(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """The advantage of each call of each rollout, before the penalty [rollouts][calls]."""

    @abstractmethod
    def weights(self, rollouts: Sequence[Rollout]) -> list[list[float]]:
        """The weight of each token of each call of each rollout [rollouts][calls]."""

    def credit(self, rollouts: Sequence[Rollout]) -> list[list[Credit]]:
        """The credit of each call of each rollout [rollouts][calls]."""
        if not rollouts:
            return []
        return [
            [
                Credit(advantage - self.penalty * fault, weight)
                for advantage, weight, fault in zip(advantages, weights, rollout.faults, strict=True)
            ]
            for rollout, advantages, weights in zip(
                rollouts, self.advantages(rollouts), self.weights(rollouts), strict=True
            )
        ]
