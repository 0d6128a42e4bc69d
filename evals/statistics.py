"""Statistics of repeated and paired samples: pass@k, and the comparison of two evaluations.

All functions are pure. Intervals of a single accuracy are in `intervals`. Two evaluations of the same tasks are
compared task by task, because tasks differ far more than planners do. The test is an exact sign-flip test: if neither
planner is better, the sign of each task's difference is random, and the distribution of their sum is computed, not
sampled. With one sample per task it is McNemar's exact test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, comb, fsum, lcm, sqrt

import numpy as np

from agentflow.evals.intervals import LEVEL, normal_quantile, t_quantile

SOUGHT, POWER = 0.05, 0.8
"""A difference, and the probability to show it, for which `Comparison.needed` is computed."""

_STEPS = 2_000_000
"""Most grid steps for the sum of the differences of all tasks."""


def pass_at_k(correct: int, tried: int, k: int) -> float:
    """Return the unbiased estimate of the probability that at least one of k samples is correct.

    `correct` of `tried` samples are correct; k <= tried. Raises ValueError for invalid counts.

    Source: M. Chen et al., "Evaluating large language models trained on code", 2021, equation 1.
    """
    if not 0 <= correct <= tried or not 1 <= k <= tried:
        raise ValueError(f"pass@{k} cannot be told from {correct} correct tries of {tried}")
    return 1 - comb(tried - correct, k) / comb(tried, k)


def best_of_k(rewards: Sequence[float], k: int) -> float:
    """Return the unbiased estimate of the expected best reward of k samples; of rewards 0 and 1 it is pass@k.

    `rewards` are those of all samples, each at least 0. Raises ValueError unless there are at least k.
    """
    steps = pairwise(sorted({0.0, *rewards}))
    return fsum(
        (upper - lower) * pass_at_k(sum(reward >= upper for reward in rewards), len(rewards), k)
        for lower, upper in steps
    )


def mean_pass_at_k(tries: Mapping[str, Sequence[float]], k: int) -> float | None:
    """Return the mean over tasks of pass@k, or of the best of k fractional rewards; with k = 1 it is avg@n.

    None unless every task has at least k samples.
    """
    if not tries or any(len(tried) < k for tried in tries.values()):
        return None
    return fsum(best_of_k(tried, k) for tried in tries.values()) / len(tries)


def pass_at(tries: Mapping[str, Sequence[float]]) -> dict[int, float]:
    """Return the mean pass@k of tasks for the powers of two up to 64 and the number of samples, by k.

    `tries` are the rewards of each task's samples. Empty unless every task has several samples.
    """
    most = min(map(len, tries.values()), default=1)
    levels = {k for k in (2, 4, 8, 16, 32, 64) if k <= most} | ({most} if most > 1 else set())
    return {k: share for k in sorted(levels) if (share := mean_pass_at_k(tries, k)) is not None}


@dataclass(frozen=True)
class Comparison:
    """Comparison of two evaluations on the tasks of both. Accuracies are means over tasks of the mean over samples."""

    questions: int
    first: float
    second: float
    difference: float
    """`second` - `first`."""
    low: float
    high: float
    """95 % interval of the difference."""
    p_value: float
    """Two-sided: the probability of a sum of differences at least as far from 0 if neither is better."""

    needed: int
    """Number of tasks that show a difference of `SOUGHT` (`questions_needed`)."""
    corrected: float
    """The p-value, corrected for multiple comparisons (`holm`)."""
    among: int = 1
    """Number of comparisons that the correction covers."""
    pass_at: tuple[int, float, float] | None = None
    """k, and pass@k of both evaluations on these tasks; None if a task has a single sample. k is the largest that the
    samples of every task in both allow."""

    @property
    def shown(self) -> bool:
        """Return whether there is a difference both by the test and by the interval, which use different methods."""
        return self.corrected < LEVEL and not self.low <= 0 <= self.high

    def verdict(self, first: str = "A", second: str = "B") -> str:
        """Return the conclusion as a sentence."""
        span = f"{100 * self.low:+.1f} to {100 * self.high:+.1f} points (95 %)"
        if self.shown:
            better, worse = (second, first) if self.difference > 0 else (first, second)
            return f"{better} is better than {worse}: {second} minus {first} is {span}"
        number = "1 question" if self.questions == 1 else f"{self.questions:,} questions"
        enough = f"{self.needed:,} questions show a difference of {100 * SOUGHT:g} points"
        among = f" among {self.among} comparisons" if self.p_value < LEVEL <= self.corrected else ""
        few = "is" if self.questions == 1 else "are"
        return f"{number} {few} too few to tell{among}: {second} minus {first} is {span}; {enough}"


def holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with Holm's correction: the family-wise error rate of all of them is at most 5 %.

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
    """Compare the samples of each task in both evaluations; a task in only one of them is left out.

    Raises ValueError if they have no task in common.
    """
    common = [question for question in first if question in second and first[question] and second[question]]
    if not common:
        raise ValueError("the two have no question in common")
    means = [[Fraction(sum(tries[one]), len(tries[one])) for one in common] for tries in (first, second)]
    differences = [after - before for before, after in zip(*means, strict=True)]
    distances = [float(difference) for difference in differences]
    low, high = paired_interval(distances)
    number = len(common)
    before, after = (float(sum(mean)) / number for mean in means)
    p_value, needed = sign_flip(_on_grid(differences)), questions_needed(distances)
    difference = float(sum(differences)) / number
    shown = _common_pass({one: first[one] for one in common}, {one: second[one] for one in common})
    return Comparison(number, before, after, difference, low, high, p_value, needed, p_value, pass_at=shown)


def _common_pass(
    first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]]
) -> tuple[int, float, float] | None:
    k = min(len(tried) for tries in (first, second) for tried in tries.values())
    before, after = mean_pass_at_k(first, k), mean_pass_at_k(second, k)
    return None if k == 1 or before is None or after is None else (k, before, after)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of paired differences, each from -1 to 1.

    It is the interval of Agresti and Min for matched proportions, which adds half a pair to each of the four cells, so
    that its width is above 0 also if no task differs. It is extended to differences of means, which are fractions, and
    uses Student's t.

    Source: A. Agresti, Y. Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
    Medicine 24, 2005.
    """
    number = len(differences) + 2
    mean = fsum(differences) / number
    half = t_quantile(1 - LEVEL / 2, number - 1) * sqrt(_spread(differences) / number)
    return max(-1.0, mean - half), min(1.0, mean + half)


def questions_needed(differences: Sequence[float]) -> int:
    """Return the number of tasks that show a difference of `SOUGHT` with probability `POWER`, if they vary as these do.

    Source: R. J. Connor, "Sample size for testing differences in proportions for the paired-sample design", Biometrics
    43, 1987, with the variance of the differences of the tasks' means.
    """
    spread = _spread(differences)
    width = normal_quantile(1 - LEVEL / 2) * sqrt(spread + SOUGHT**2) + normal_quantile(POWER) * sqrt(spread)
    return ceil((width / SOUGHT) ** 2)


def _spread(differences: Sequence[float]) -> float:
    """Return the variance of paired differences with half a pair added to each of the four cells."""
    number = len(differences) + 2
    return (fsum(difference**2 for difference in differences) + 1) / number - (fsum(differences) / number) ** 2


def _on_grid(differences: Sequence[Fraction]) -> list[int]:
    """Return the differences as multiples of a common unit, rounded if the exact unit needs more than `_STEPS`."""
    exact = lcm(*(difference.denominator for difference in differences))
    unit = min(exact, max(1, _STEPS // len(differences)))
    return [round(difference * unit) for difference in differences]


def sign_flip(differences: Sequence[int]) -> float:
    """Return the exact two-sided p-value of the sum of `differences` if the sign of each is random.

    A random sign times m has the characteristic function cos(m t). The inverse Fourier transform of the product of
    these functions is the distribution of the sum.
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
