"""Versions of the planner: the one that answers, the one on trial, and what decides between them."""

import random
from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from typing import Literal

from agentflow.evals.intervals import accuracy_interval
from agentflow.rl.live.journal import Decision, Journal

MARGIN = 0.02
"""Held-out accuracy that a version may lose against the best one so far."""
FEWEST = 8
"""Rewards of each side before a trial can be lost."""


class Versions:
    """The decisions so far, and what follows from them."""

    def __init__(self, folder: Path, share: float, on_decision: Callable[[Decision], None]) -> None:
        """Read the folder; `share` is that of the requests which a version on trial answers. Raises JournalError."""
        self._journal = Journal(folder / "decisions.jsonl", Decision)
        self._share, self._on_decision = share, on_decision
        self.decisions = self._journal.read()
        """All decisions, in their order."""

    @property
    def current(self) -> int:
        """The version that answers: the last one that was promoted, 0 at first."""
        return next((one.version for one in reversed(self.decisions) if one.outcome == "promoted"), 0)

    @property
    def trial(self) -> Decision | None:
        """The decision by which a version is on trial; None if none is."""
        last = self.decisions[-1] if self.decisions else None
        return last if last and last.outcome == "trial" else None

    @property
    def next(self) -> int:
        """Number of the version that is to be made, or decided on."""
        return self.trial.version if self.trial else max((one.version for one in self.decisions), default=0) + 1

    @property
    def best(self) -> float:
        """Highest held-out accuracy of the start and of the versions that were promoted; 0 if none is known."""
        known = [one.held_out or 0.0 for one in self.decisions if one.outcome == "promoted"]
        return max(known, default=0.0)

    def choose(self, chance: Callable[[], float] = random.random) -> int:
        """Return the version that answers a request."""
        return self.trial.version if self.trial and chance() < self._share else self.current

    def decide(self, decision: Decision) -> None:
        """Record a decision, which then takes effect."""
        self._journal.append(decision, synced=True)
        self.decisions.append(decision)
        self._on_decision(decision)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def verdict(trial: Sequence[float], current: Sequence[float], wanted: int) -> Literal["promoted", "rolled_back"] | None:
    """Return the outcome of a trial by the rewards of both versions in the same time; None while it goes on.

    A version is rolled back as soon as the 95 % interval of the difference is below 0, and promoted after `wanted`
    rewards otherwise.
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
