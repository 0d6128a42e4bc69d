"""The result of a scorer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Decision(StrEnum):
    """Whether an answer is right, if the scorer can decide it."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Score:
    """A decision and the rule or judge that made it."""

    decision: Decision
    decided_by: str
    """The rule ("exact match", "option letter") or "judge"; for an undecided score, the reason."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further metrics of the benchmark's own script, each 0 to 1: "em", "f1"."""

    @property
    def correct(self) -> bool:
        """Return whether the answer counts as correct; an undecided one does not."""
        return self.decision == Decision.CORRECT


def decided(correct: bool, by: str) -> Score:
    """Return the score of a rule that is certain."""
    return Score(Decision.CORRECT if correct else Decision.INCORRECT, by)


def undecided(why: str) -> Score:
    """Return the score of a rule that is not certain, with the reason."""
    return Score(Decision.UNDECIDED, why)
