"""What a scorer says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Decision(StrEnum):
    """Whether an answer is right, as far as it can be told."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Score:
    """A decision and who made it."""

    decision: Decision
    decided_by: str
    """The rule, as "exact match" or "option letter", or "judge"; of an undecided score, what stood in the way."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the benchmark's own script reports besides, each 0 to 1: "em", "f1"."""

    @property
    def correct(self) -> bool:
        """Whether it counts as correct: what is undecided does not."""
        return self.decision == Decision.CORRECT


def decided(correct: bool, by: str) -> Score:
    """The score of a rule that is sure."""
    return Score(Decision.CORRECT if correct else Decision.INCORRECT, by)


def undecided(why: str) -> Score:
    """The score of a rule that is not sure."""
    return Score(Decision.UNDECIDED, why)
