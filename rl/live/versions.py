"""Versions of the planner: the one that answers, the one on trial, and what decides between them."""

import random
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Literal

from agentflow.evals.intervals import accuracy_interval
from agentflow.rl.live.journal import Journal, VersionDecision

FEWEST = 8
"""Rewards of each side before a trial can be lost."""


class Versions:
    """The decisions so far, and what follows from them."""

    def __init__(self, folder: Path, share: float, on_decision: Callable[[VersionDecision], None]) -> None:
        """Read the folder; `share` is that of the requests which a version on trial answers. Raises JournalError."""
        self._journal = Journal(folder / "decisions.jsonl", VersionDecision)
        self._share, self._on_decision = share, on_decision
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
    def trial(self) -> VersionDecision | None:
        """The decision by which a version is on trial; None if none is."""
        last = self.decisions[-1] if self.decisions else None
        return last if last and last.outcome == "trial" else None

    @property
    def next(self) -> int:
        """Number of the version that is to be made, or decided on."""
        return self.trial.version if self.trial else max((one.version for one in self.decisions), default=0) + 1

    def choose(self, chance: Callable[[], float] = random.random) -> int:
        """Return the version that answers a request."""
        return self.trial.version if self.trial and chance() < self._share else self.current

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

    Args:
        new: Whether the version answers each task.
        old: The same of the version that it is compared with.
    """
    lost = sum(old[task] and not new[task] for task in old)
    won = sum(new[task] and not old[task] for task in old)
    return lost - won > sqrt(lost + won)


def verdict(trial: Sequence[float], current: Sequence[float], wanted: int) -> Literal["promoted", "rolled_back"] | None:
    """Return the outcome of a trial by the rewards of both versions in the same time; None while it goes on.

    A version is rolled back as soon as the 95 % interval of the difference is below 0, and promoted after `wanted`
    rewards otherwise. It is asked after each reward, so that more than 2.5 % of the versions that are no worse are
    lost.
    """
    if min(len(trial), len(current)) >= FEWEST and most_gain(trial, current) < 0:
        return "rolled_back"
    return "promoted" if len(trial) >= wanted and len(current) >= FEWEST else None


def most_gain(new: Sequence[float], old: Sequence[float]) -> float:
    """Return the upper limit of the 95 % interval of the difference of two mean rewards.

    Source: R. G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics in
    Medicine 17, 1998, method 10.
    """
    new_mean, old_mean = sum(new) / len(new), sum(old) / len(old)
    high, low = accuracy_interval(new)[1], accuracy_interval(old)[0]
    return new_mean - old_mean + sqrt((high - new_mean) ** 2 + (old_mean - low) ** 2)
