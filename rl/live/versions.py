"""Versions of the planner: the one that answers, and what decides whether another takes its place."""

from collections.abc import Callable, Mapping
from math import sqrt
from pathlib import Path

from agentflow.rl.live.journal import Journal, VersionDecision


class Versions:
    """The decisions so far, and what follows from them."""

    def __init__(self, folder: Path, on_decision: Callable[[VersionDecision], None]) -> None:
        """Read the folder. Raises JournalError."""
        self._journal = Journal(folder / "decisions.jsonl", VersionDecision)
        self._on_decision = on_decision
        self.decisions = self._journal.read()
        """All decisions, in their order."""

    @property
    def promoted(self) -> list[int]:
        """The versions that have answered, in their order, without the start."""
        return [one.version for one in self.decisions if one.outcome == "promoted"]

    @property
    def current(self) -> int:
        """The version that answers: the last one that was promoted, 0 at first."""
        return [0, *self.promoted][-1]

    @property
    def next(self) -> int:
        """Number of the version that is to be made."""
        return max((one.version for one in self.decisions), default=0) + 1

    def decide(self, decision: VersionDecision) -> None:
        """Record a decision, which then takes effect."""
        self._journal.append(decision, synced=True)
        self.decisions.append(decision)
        self._on_decision(decision)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def loses(new: Mapping[str, bool], old: Mapping[str, bool]) -> bool:
    """Return whether a version loses more held-out tasks than it wins, by more than a standard error of the difference.

    `new` says whether the version answers each task, `old` the same of the one that it is compared with.
    """
    lost = sum(old[task] and not new[task] for task in old)
    won = sum(new[task] and not old[task] for task in old)
    return lost - won > sqrt(lost + won)
