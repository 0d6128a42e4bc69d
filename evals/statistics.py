"""What repeated and paired tries can tell. Pure functions of counts; intervals of one accuracy are in `intervals`.

Two evaluations of the same questions are compared question by question, since questions differ far more than planners
do. The test is exact: if neither planner is better, the sign of a question's difference is a coin's toss, and the
distribution of their sum is computed, not sampled. With one try per question that is McNemar's exact test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, fsum, lcm, sqrt

import numpy as np

from agentflow.evals.intervals import LEVEL, t_quantile

_STEPS = 2_000_000
"""Finest grid on which the differences of all questions are added up."""


def pass_at_k(correct: int, tried: int, k: int) -> float:
    """Chance that one of k tries at least is correct: unbiased, from `correct` of `tried` tries, k <= tried.

    Raises ValueError for counts that cannot be.

    Source: M. Chen et al., "Evaluating large language models trained on code", 2021, equation 1.
    """
    if not 0 <= correct <= tried or not 1 <= k <= tried:
        raise ValueError(f"pass@{k} cannot be told from {correct} correct tries of {tried}")
    return 1 - comb(tried - correct, k) / comb(tried, k)


def mean_pass_at_k(tries: Mapping[str, Sequence[bool]], k: int) -> float | None:
    """pass@k over questions; with k = 1 it is avg@n, the mean of the tries. None unless all were tried k times."""
    if not tries or any(len(tried) < k for tried in tries.values()):
        return None
    return fsum(pass_at_k(sum(tried), len(tried), k) for tried in tries.values()) / len(tries)


@dataclass(frozen=True)
class Flip:
    """A question whose share of correct tries differs between two evaluations."""

    id: str
    question: str
    before: float
    after: float


@dataclass(frozen=True)
class Comparison:
    """Two evaluations on the questions that both have. Accuracies are means over questions of the mean over tries."""

    questions: int
    first: float
    second: float
    difference: float
    """`second` - `first`."""
    low: float
    high: float
    """95 % interval of the difference."""
    p_value: float
    """Two-sided; of a sum of differences at least as far from 0 if neither is better."""

    corrected: float
    """The p-value, as large as it is once all differences that are looked at together are taken into account."""
    among: int = 1
    """How many these are."""

    @property
    def shown(self) -> bool:
        """Whether the questions show a difference: by the test and by the interval, which is made in another way."""
        return self.corrected < LEVEL and not self.low <= 0 <= self.high

    def verdict(self, first: str = "A", second: str = "B") -> str:
        """A sentence on what this allows to say."""
        span = f"{100 * self.low:+.1f} to {100 * self.high:+.1f} points (95 %)"
        if self.shown:
            better, worse = (second, first) if self.difference > 0 else (first, second)
            return f"{better} is better than {worse}: {second} minus {first} is {span}"
        number = "1 question" if self.questions == 1 else f"{self.questions:,} questions"
        among = f" among {self.among} comparisons" if self.p_value < LEVEL <= self.corrected else ""
        return f"no difference that {number} can show{among}: {second} minus {first} is {span}"


def holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons, their p-values corrected for being looked at together: one chance in 20 to be misled by any.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
    1979.
    """
    number, least = len(comparisons), 0.0
    found = list(comparisons)
    for rank, place in enumerate(sorted(range(number), key=lambda one: comparisons[one].p_value)):
        least = min(1.0, max(least, (number - rank) * comparisons[place].p_value))
        found[place] = replace(comparisons[place], corrected=least, among=number)
    return found


def compare(first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]]) -> Comparison:
    """Compares the tries of each question in both; a question in only one of them is left out.

    Raises:
        ValueError: They have no question in common.
    """
    common = [question for question in first if question in second and first[question] and second[question]]
    if not common:
        raise ValueError("the two have no question in common")
    means = [[Fraction(sum(tries[one]), len(tries[one])) for one in common] for tries in (first, second)]
    differences = [after - before for before, after in zip(*means, strict=True)]
    low, high = paired_interval([float(difference) for difference in differences])
    number = len(common)
    before, after = (float(sum(mean)) / number for mean in means)
    p_value = sign_flip(_on_grid(differences))
    return Comparison(number, before, after, float(sum(differences)) / number, low, high, p_value, p_value)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """95 % interval of a mean of paired differences, each from -1 to 1.

    That of Agresti and Min for matched proportions, which adds half a pair to each of the four cells, so that it has a
    width also where no question differs; their sums are written for differences of means, which are fractions, and with
    Student's t.

    Source: A. Agresti, Y. Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
    Medicine 24, 2005.
    """
    number = len(differences) + 2
    mean = fsum(differences) / number
    spread = (fsum(difference**2 for difference in differences) + 1) / number - mean**2
    half = t_quantile(1 - LEVEL / 2, number - 1) * sqrt(spread / number)
    return max(-1.0, mean - half), min(1.0, mean + half)


def _on_grid(differences: Sequence[Fraction]) -> list[int]:
    """The differences in a common unit; rounded where the tries are so many that none is large enough to add up."""
    exact = lcm(*(difference.denominator for difference in differences))
    unit = min(exact, max(1, _STEPS // len(differences)))
    return [round(difference * unit) for difference in differences]


def sign_flip(differences: Sequence[int]) -> float:
    """Exact two-sided p-value of the sum of `differences` if the sign of each were a coin's toss.

    A sum of independent signs times m has the characteristic function cos(m t); one inverse Fourier transform of their
    product gives the distribution.
    """
    sizes, counts = np.unique(np.abs([one for one in differences if one]), return_counts=True)
    farthest = int(sizes @ counts)
    if farthest == 0:
        return 1.0
    length = 1 << (2 * farthest).bit_length()
    steps = np.arange(length // 2 + 1)
    product = np.ones(len(steps))
    for size, count in zip(sizes, counts, strict=True):
        product *= np.cos(2 * np.pi * (size * steps % length) / length) ** count
    chances = np.fft.irfft(product, length)
    observed = abs(sum(differences))
    tail = float(chances[observed : farthest + 1].sum())
    return min(1.0, max(0.0, 2 * tail)) if observed else 1.0
