"""Confidence intervals of an accuracy over tasks with one or several samples each.

Samples of the same task are not independent, so the sampling units are tasks. The interval is computed for an effective
number n of tasks (Korn and Graubard). n is never below the number of tasks, because a mean over samples varies less
than a single sample. n exceeds it only as far as the variance of the tasks' means shows, with Student's t for the
number of tasks. For n, the limits are the mid-P limits of a binomial proportion. On average over accuracies, they
contain the accuracy in 95 of 100 evaluations; the exact limits of Clopper and Pearson contain it in 97 or more. For any
number of samples, the lower limit is never above the exact one for tasks that are all right, and the upper limit is
never below the exact one for tasks that are all wrong.

Sources: E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected number of positive
counts estimated from survey data", Survey Methodology 24, 1998. A. Agresti, A. Gottard, "Nonconservative exact
small-sample inference for discrete data", Computational Statistics & Data Analysis 51, 2007 (mid-P).
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import lgamma, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.05
"""Significance level: intervals have confidence 1 - LEVEL, and a smaller p-value shows a difference."""

_PRIOR = 1.0
"""Pseudo-tasks added to the variance of the means, with samples that never differ, which is the worst case."""
_TERMS = 400
"""Most terms of a continued fraction; for 10,000 questions it takes 150."""


def accuracy_interval(means: Sequence[float], tries: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy; (0, 1) without tasks. It always contains the mean of `means`.

    Args:
        means: Share of correct samples of each task, 0 to 1.
        tries: Number of samples of each task.
    """
    if not means:
        return 0.0, 1.0
    shares = np.asarray([means], dtype=float)
    low, high = intervals(shares.mean(axis=1), np.square(shares).mean(axis=1), len(means), tries)
    return float(low[0]), float(high[0])


def intervals(mean: Floats, square: Floats, questions: int, tries: int) -> tuple[Floats, Floats]:
    """Return the intervals of many evaluations at once.

    Args:
        mean: Mean of the tasks' shares of correct samples, one per evaluation.
        square: Mean square of these shares, one per evaluation.
        questions: Number of tasks.
        tries: Number of samples of each task.
    """
    number = _effective(mean, square, questions, tries)
    least = (LEVEL / 2) ** (1 / questions)
    low = np.minimum(_low(mean * number, number), np.minimum(mean, least))
    high = 1 - np.minimum(_low((1 - mean) * number, number), np.minimum(1 - mean, least))
    return low, high


def _effective(mean: Floats, square: Floats, questions: int, tries: int) -> Floats:
    """Return the effective number of tasks with one sample each, from `questions` to `questions * tries`."""
    chance = mean * (1 - mean)
    number = np.full(len(mean), float(questions))
    if tries == 1 or questions == 1:
        return number
    spread = np.maximum(0.0, square - mean**2) * questions
    spread = (spread + _PRIOR * chance) / (questions - 1 + _PRIOR)
    shrink = (normal_quantile(1 - LEVEL / 2) / t_quantile(1 - LEVEL / 2, questions - 1)) ** 2
    np.divide(chance * questions * shrink, spread, out=number, where=spread > 0)
    bounded: Floats = np.clip(number, questions, questions * tries)
    return bounded


def _low(successes: Floats, number: Floats) -> Floats:
    """Return the lower mid-P limit, at which P(more successes) + P(as many successes) / 2 = 2.5 %."""
    some = successes > 0
    x, n = successes[some], number[some]
    ways = _log_gamma(n + 1) - _log_gamma(x + 1) - _log_gamma(n - x + 1)

    def chance(share: Floats) -> Floats:
        tie = np.exp(ways + x * np.log(share) + (n - x) * np.log1p(-share))
        return incomplete_beta(share, x + 1, n - x) + tie / 2

    limits = np.zeros(len(successes))
    limits[some] = _solved(chance, np.full(len(x), LEVEL / 2))
    return limits


def incomplete_beta(share: Floats, a: Floats, b: Floats) -> Floats:
    """Return the regularized incomplete beta function, elementwise; 0 < `share` < 1, and b = 0 gives 0.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22, evaluated by Lentz's method.
    """
    swapped = share > (a + 1) / (a + b + 2)
    x, p, q = np.where(swapped, 1 - share, share), np.where(swapped, b, a), np.where(swapped, a, b)
    none = (p <= 0) | (q <= 0)
    p, q = np.where(none, 1.0, p), np.where(none, 1.0, q)
    front = p * np.log(x) + q * np.log1p(-x) + _log_gamma(p + q) - _log_gamma(p) - _log_gamma(q)
    value = np.exp(front) / (p * _fraction(x, p, q))
    return np.where(none, np.where(b <= 0, 0.0, 1.0), np.where(swapped, 1 - value, value))


def _fraction(x: Floats, p: Floats, q: Floats) -> Floats:
    """Return the continued fraction of the incomplete beta function."""
    value = upper = np.ones(len(x))
    lower = np.zeros(len(x))
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            factor = -(p + m) * (p + q + m) * x / ((p + 2 * m) * (p + 2 * m + 1))
        else:
            factor = m * (q - m) * x / ((p + 2 * m - 1) * (p + 2 * m))
        upper, lower = 1 + factor / upper, 1 / (1 + factor * lower)
        value = value * upper * lower
        if np.all(np.abs(upper * lower - 1) < 1e-14):
            break
    return value


def _solved(rising: Callable[[Floats], Floats], wanted: Floats) -> Floats:
    """Return the arguments in 0 to 1 at which an increasing function has the values `wanted`, by bisection."""
    low, high = np.zeros(len(wanted)), np.ones(len(wanted))
    for _ in range(40):
        middle = (low + high) / 2
        below = rising(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _log_gamma(values: Floats) -> Floats:
    return np.fromiter(map(lgamma, values.tolist()), float, len(values))


@cache
def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile `share`, above 0.5, of Student's t distribution with `freedom` degrees of freedom."""
    a, b = np.array([freedom / 2]), np.array([0.5])
    beta = float(_solved(lambda x: incomplete_beta(x, a, b), np.array([2 * (1 - share)]))[0])
    return sqrt(freedom * (1 - beta) / beta)


def normal_quantile(share: float) -> float:
    """Return the quantile `share` of the standard normal distribution."""
    return NormalDist().inv_cdf(share)
