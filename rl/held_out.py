"""Rewards of held-out tasks before and after a training, or a search for prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from agentflow.evals.statistics import paired_interval


@dataclass(frozen=True)
class HeldOut:
    """Mean rewards of the same tasks before and after."""

    tasks: int
    before: float
    after: float
    low: float
    high: float
    """95 % interval of the mean difference, task by task."""

    @classmethod
    def of(cls, before: Sequence[float], after: Sequence[float]) -> "HeldOut":
        """Compare the rewards of the same tasks, each from 0 to 1."""
        low, high = paired_interval([second - first for first, second in zip(before, after, strict=True)])
        number = len(before)
        return cls(number, fsum(before) / number, fsum(after) / number, low, high)
