"""Power analysis: the number of tasks that are needed to show a difference between two evaluations.

Each task has its own probability that a sample is right. `between` is the share of the variance of single samples that
lies between tasks: 0 if all tasks are equally hard, 1 if each task is always right or always wrong. More samples per
task reduce only the rest of the variance. If both evaluations have the same tasks, a task is assumed to be equally hard
for both, so that the variance between tasks cancels in the difference. All functions are pure.

Source: R. J. Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43,
1987. The share of discordant pairs is replaced by the mean square of the differences of the tasks' means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, sqrt
from statistics import fmean, variance

from agentflow.evals.intervals import LEVEL, normal_quantile

POWER = 0.8
BETWEEN = 0.5
"""Default of `PlannedComparison.between`, if no estimate is known."""


@dataclass(frozen=True)
class PlannedComparison:
    """A planned comparison of two evaluations."""

    first: float
    """Expected accuracy of the first, 0 to 1."""
    second: float
    """Expected accuracy of the second, 0 to 1."""
    tries: int = 1
    """Samples of each task, in both."""
    between: float = BETWEEN
    power: float = POWER
    """Probability to detect the difference if there is one."""
    level: float = LEVEL
    """Probability to report a difference if there is none."""

    def __post_init__(self) -> None:
        if not (0 <= self.first <= 1 and 0 <= self.second <= 1):
            raise ValueError(f"there is no accuracy of {self.first:g} or {self.second:g}; they are from 0 to 1")
        if self.first == self.second:
            raise ValueError("a difference of 0 takes endlessly many questions")

    @property
    def paired(self) -> int:
        """Return the number of tasks if both evaluations have the same ones and are compared task by task."""
        one, other = self._single
        spread = self._spread(one) + self._spread(other) - 2 * self.between * sqrt(one * other)
        distance = abs(self.second - self.first)
        # Differences are multiples of 1 / tries, so that their mean square is at least distance / tries.
        square = max(spread + distance**2, distance / self.tries)
        return max(self._needed(square, square - distance**2, 1 / self.tries), self._fewest)

    @property
    def unpaired(self) -> int:
        """Return the number of tasks of each evaluation if their tasks are different."""
        mean = (self.first + self.second) / 2
        null = 2 * self._spread(mean * (1 - mean))
        return max(self._needed(null, sum(map(self._spread, self._single))), self._fewest)

    @property
    def _single(self) -> tuple[float, float]:
        """Return the variances of a single sample, for both evaluations."""
        return self.first * (1 - self.first), self.second * (1 - self.second)

    def _spread(self, single: float) -> float:
        """Return the variance of a task's mean over its samples, from the variance of a single sample."""
        return single * (self.between + (1 - self.between) / self.tries)

    def _needed(self, null: float, spread: float, step: float = 0.0) -> int:
        """Return the number of tasks.

        Args:
            null: Variance of a task's difference if the accuracies are equal.
            spread: Variance of a task's difference if they differ as planned.
            step: Margin by which the sum of the differences must exceed the critical value, because the p-values of an
                exact test are discrete.
        """
        width = normal_quantile(1 - self.level / 2) * sqrt(null) + normal_quantile(self.power) * sqrt(max(0.0, spread))
        distance = abs(self.second - self.first)
        return ceil(((width + sqrt(width**2 + 4 * distance * step)) / (2 * distance)) ** 2)

    @property
    def _fewest(self) -> int:
        """Return the fewest tasks with which an exact sign test can reach `level`, if all differ in one direction."""
        return floor(1 - log2(self.level)) + 1


def between(tries: Mapping[str, Sequence[bool]]) -> float | None:
    """Estimate the share of the variance that lies between tasks, 0 to 1, from the tasks with the most samples.

    Return None if it cannot be estimated: with single samples, with one task, or if all answers are right or all wrong.
    """
    most = max(map(len, tries.values()), default=0)
    means = [fmean(tried) for tried in tries.values() if len(tried) == most]
    if most < 2 or len(means) < 2 or not 0 < fmean(means) < 1:
        return None
    within = fmean(mean * (1 - mean) for mean in means) * most / (most - 1)
    among = max(0.0, variance(means) - within / most)
    return among / (among + within)
