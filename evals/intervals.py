"""Confidence intervals of an accuracy over tasks with one or several samples each.

Samples of the same task are not independent, so the sampling units are tasks. The interval is Wilson's for an effective
number of tasks (Korn and Graubard). That number is never below the number of tasks, because a mean over samples varies
less than a single sample. It exceeds it only as far as the variance of the tasks' means shows, with Student's t for the
number of tasks.

At the ends, all right and all wrong, the limits are the exact ones of Clopper and Pearson, whatever the number of
samples. No lower limit is above the one for all right, and no upper limit is below the one for all wrong; otherwise a
single right sample would narrow the interval of tasks that are all wrong.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American
Statistical Association 22, 1927. E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected
number of positive counts estimated from survey data", Survey Methodology 24, 1998.
"""

from collections.abc import Sequence
from functools import cache
from math import cos, pi, sin, sqrt, tan
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.05
"""Significance level: intervals have confidence 1 - LEVEL, and a smaller p-value shows a difference."""

_EQUAL = 1e-9
"""Variance of the tasks' means below which they are equal, and do not show how tasks vary."""


def accuracy_interval(means: Sequence[float], tries: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy; (0, 1) without tasks. It always contains the mean of `means`.

    `means` are the tasks' shares of correct samples, 0 to 1; each task has `tries` samples.
    """
    if not means:
        return 0.0, 1.0
    shares = np.asarray([means], dtype=float)
    low, high = intervals(shares.mean(axis=1), np.square(shares).mean(axis=1), len(means), tries)
    return float(low[0]), float(high[0])


def intervals(mean: Floats, square: Floats, questions: int, tries: int) -> tuple[Floats, Floats]:
    """Return the intervals of many evaluations at once.

    `mean` and `square` are the mean and the mean square of the tasks' shares of correct samples, one per evaluation.
    """
    number = _effective(mean, square, questions, tries)
    exact = (LEVEL / 2) ** (1 / questions)
    return _low(mean, number, exact), 1 - _low(1 - mean, number, exact)


def _effective(mean: Floats, square: Floats, questions: int, tries: int) -> Floats:
    """Return the effective number of tasks with one sample each, from `questions` to `questions * tries`."""
    number = np.full(len(mean), float(questions))
    if tries == 1 or questions == 1:
        return number
    spread = square - mean**2
    shrink = (normal_quantile(1 - LEVEL / 2) / t_quantile(1 - LEVEL / 2, questions - 1)) ** 2
    np.divide(mean * (1 - mean) * (questions - 1) * shrink, spread, out=number, where=spread > _EQUAL)
    bounded: Floats = np.clip(number, questions, questions * tries)
    return bounded


def _low(mean: Floats, number: Floats, exact: float) -> Floats:
    """Return the lower limits of Wilson's intervals; `exact` is the one for a mean of 1."""
    ratio = normal_quantile(1 - LEVEL / 2) ** 2 / number
    limit = (mean + ratio / 2 - np.sqrt(ratio * mean * (1 - mean) + ratio**2 / 4)) / (1 + ratio)
    return np.where(mean == 1, exact, np.clip(limit, 0, np.minimum(mean, exact)))


@cache
def t_quantile(share: float, freedom: int) -> float:
    """Return the quantile `share`, above 0.5, of Student's t distribution with `freedom` degrees of freedom.

    Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4, solved by bisection.
    """
    odd = freedom % 2
    steps = np.arange(1 + odd, freedom - 2, 2)

    def inside(angle: float) -> float:
        total = 1 + float(np.cumprod(steps / (steps + 1) * cos(angle) ** 2).sum())
        if not odd:
            return sin(angle) * total
        return 2 / pi * (angle + (sin(angle) * cos(angle) * total if freedom > 1 else 0))

    low, high = 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 2 * share - 1 else (low, middle)
    return sqrt(freedom) * tan(low)


def normal_quantile(share: float) -> float:
    """Return the quantile `share` of the standard normal distribution."""
    return NormalDist().inv_cdf(share)
