"""How many questions it takes to show a difference between two evaluations. Pure functions.

A try of a question is right with the question's own chance, and these chances vary. `between` is the share of the
variance of single tries that lies between questions: 0 if all are equally hard, 1 if each is always right or always
wrong. More tries reduce only the rest. Where both evaluations have the same questions, what is hard for one is taken
to be as hard for the other, so that it drops out of their difference.

Source: R. J. Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics 43,
1987, whose discordant pairs are here the mean square of the differences of the questions' means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, sqrt
from statistics import fmean, variance

from agentflow.evals.intervals import LEVEL, normal_quantile

POWER = 0.8
BETWEEN = 0.5
"""Where nothing is known of it."""


@dataclass(frozen=True)
class Plan:
    """Two evaluations that are to be compared."""

    first: float
    """Accuracy of the one."""
    second: float
    """Accuracy of the other."""
    tries: int = 1
    """Of each question, in both."""
    between: float = BETWEEN
    power: float = POWER
    """Chance to show the difference if there is one."""
    level: float = LEVEL
    """Chance to show one if there is none."""

    def __post_init__(self) -> None:
        if not (0 <= self.first <= 1 and 0 <= self.second <= 1):
            raise ValueError(f"there is no accuracy of {self.first:g} or {self.second:g}; they are from 0 to 1")
        if self.first == self.second:
            raise ValueError("a difference of 0 takes endlessly many questions")

    @property
    def paired(self) -> int:
        """Questions, if both evaluations have the same ones and are compared question by question."""
        one, other = self._single
        spread = self._spread(one) + self._spread(other) - 2 * self.between * sqrt(one * other)
        distance = abs(self.second - self.first)
        square = max(spread + distance**2, distance / self.tries)  # no differences of multiples of 1/tries have less
        return max(self._needed(square, square - distance**2, 1 / self.tries), self._fewest)

    @property
    def unpaired(self) -> int:
        """Questions of each evaluation, if their questions are different ones."""
        mean = (self.first + self.second) / 2
        null = 2 * self._spread(mean * (1 - mean))
        return max(self._needed(null, sum(map(self._spread, self._single))), self._fewest)

    @property
    def _single(self) -> tuple[float, float]:
        """The variances of one try of any question."""
        return self.first * (1 - self.first), self.second * (1 - self.second)

    def _spread(self, single: float) -> float:
        """The variance of the mean of a question's tries."""
        return single * (self.between + (1 - self.between) / self.tries)

    def _needed(self, null: float, spread: float, step: float = 0.0) -> int:
        """From the variances of a question's difference, without and with a difference of the accuracies.

        `step` is what the sum of the differences must exceed them by, since an exact test has only so many p-values.
        """
        width = normal_quantile(1 - self.level / 2) * sqrt(null) + normal_quantile(self.power) * sqrt(max(0.0, spread))
        distance = abs(self.second - self.first)
        return ceil(((width + sqrt(width**2 + 4 * distance * step)) / (2 * distance)) ** 2)

    @property
    def _fewest(self) -> int:
        """What an exact test of signs takes, even if all differ in the same way."""
        return floor(1 - log2(self.level)) + 1


def between(tries: Mapping[str, Sequence[bool]]) -> float | None:
    """The share of the variance that lies between questions, from those that were tried most often; 0 to 1.

    None if it cannot be told: from single tries, one question, or answers that are all right or all wrong.
    """
    most = max(map(len, tries.values()), default=0)
    means = [fmean(tried) for tried in tries.values() if len(tried) == most]
    if most < 2 or len(means) < 2 or not 0 < fmean(means) < 1:
        return None
    within = fmean(mean * (1 - mean) for mean in means) * most / (most - 1)
    among = max(0.0, variance(means) - within / most)
    return among / (among + within)
