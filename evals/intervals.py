"""The interval of an accuracy whose questions were tried once or several times.

Tries of one question are not independent: what is sampled is questions. The interval is that of an effective number of
questions n, which is never below the number of questions, since a mean over tries varies less than one try does, and
exceeds it only as far as the questions' own means, with Student's t for their number, show it (Korn and Graubard). For
n the limits are the mid-P ones of a binomial proportion, which hold the accuracy in 95 of 100 evaluations on average
over accuracies where the exact ones of Clopper and Pearson hold it in 97 or more. No interval ends nearer to 0 or 1
than the exact one does for questions that are all wrong or all right, however often each was tried.

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
"""What intervals leave out, and the p-value below which a difference is called one."""

_PRIOR = 1.0
"""Questions added to the spread of the means as if their tries never differed: the worst there can be."""
_TERMS = 400
"""Most terms of a continued fraction; for 10,000 questions it takes 150."""


def accuracy_interval(means: Sequence[float], tries: int = 1) -> tuple[float, float]:
    """95 % interval of the accuracy, from each question's share of correct tries; (0, 1) where there is no question.

    The mean of `means` is always in it. `tries` is how often each question was tried.
    """
    if not means:
        return 0.0, 1.0
    shares = np.asarray([means], dtype=float)
    low, high = intervals(shares.mean(axis=1), np.square(shares).mean(axis=1), len(means), tries)
    return float(low[0]), float(high[0])


def intervals(mean: Floats, square: Floats, questions: int, tries: int) -> tuple[Floats, Floats]:
    """The intervals of many evaluations at once, from the mean and the mean square of their questions' shares."""
    number = _effective(mean, square, questions, tries)
    least = (LEVEL / 2) ** (1 / questions)
    low = np.minimum(_low(mean * number, number), np.minimum(mean, least))
    high = 1 - np.minimum(_low((1 - mean) * number, number), np.minimum(1 - mean, least))
    return low, high


def _effective(mean: Floats, square: Floats, questions: int, tries: int) -> Floats:
    """How many questions, tried once, tell as much: from `questions` to as many as there are tries."""
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
    """The lower mid-P limit: where at least as many successes, those that tie counted half, have a chance of 2.5 %."""
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
    """The regularized incomplete beta function, elementwise; `share` is above 0 and below 1, b = 0 gives 0.

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
    """The continued fraction of the incomplete beta function."""
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
    """Where a function that rises on 0 to 1 has the values `wanted`, by bisection."""
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
    """Student's t below which `share`, above a half, of its distribution lies."""
    a, b = np.array([freedom / 2]), np.array([0.5])
    beta = float(_solved(lambda x: incomplete_beta(x, a, b), np.array([2 * (1 - share)]))[0])
    return sqrt(freedom * (1 - beta) / beta)


def normal_quantile(share: float) -> float:
    """That of the standard normal distribution."""
    return NormalDist().inv_cdf(share)
