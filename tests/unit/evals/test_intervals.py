"""Intervals of accuracies: their limits, at the ends, and by how often they hold the accuracy."""

from collections.abc import Iterator
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentflow.evals.intervals import Floats, accuracy_interval, intervals, t_quantile

ACCURACIES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
SHARED = (0.0, 0.2, 0.6)
"""Share of the variance of tries that lies between questions."""


def test_students_t_agrees_with_its_table() -> None:
    published = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 10: 2.228, 29: 2.045, 30: 2.042, 120: 1.980}
    assert {freedom: round(t_quantile(0.975, freedom), 3) for freedom in published} == published


@pytest.mark.parametrize(("correct", "number"), [(1, 10), (9, 12), (30, 40), (300, 1000)])
def test_a_limit_is_where_the_mean_becomes_unlikely(correct: int, number: int) -> None:
    mean = correct / number
    for limit in accuracy_interval([1.0] * correct + [0.0] * (number - correct)):
        assert abs(mean - limit) / sqrt(limit * (1 - limit) / number) == pytest.approx(1.959964)


@pytest.mark.parametrize("tries", [1, 2, 8])
@pytest.mark.parametrize("number", [1, 2, 16, 1000])
def test_all_right_and_all_wrong_are_exact_for_the_questions(number: int, tries: int) -> None:
    """However often each was tried."""
    least = 0.025 ** (1 / number)
    assert accuracy_interval([1.0] * number, tries) == pytest.approx((least, 1.0))
    assert accuracy_interval([0.0] * number, tries) == pytest.approx((0.0, 1 - least))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_the_accuracy_is_in_its_interval(correct: list[int]) -> None:
    means = [number / 4 for number in correct]
    low, high = accuracy_interval(means, 4)
    assert 0 <= low <= sum(means) / len(means) <= high <= 1
    turned = accuracy_interval([1 - mean for mean in means], 4)
    assert (1 - turned[1], 1 - turned[0]) == pytest.approx((low, high), abs=1e-9)
    once = accuracy_interval(means, 1)
    assert (low >= once[0] - 1e-9, high <= once[1] + 1e-9) == (True, True)


def counted(questions: int) -> Iterator[float]:
    """Coverage with one try of each question, by the chance of every count."""
    counts = np.arange(questions + 1)
    low, high = intervals(counts / questions, counts / questions, questions, 1)
    steps = np.log(np.arange(1, questions + 1))
    ways = np.concatenate([[0.0], np.cumsum(steps[::-1] - steps)])
    for accuracy in ACCURACIES:
        chances = np.exp(ways + counts * np.log(accuracy) + (questions - counts) * np.log1p(-accuracy))
        yield float(chances[(low <= accuracy) & (accuracy <= high)].sum())


def simulated(questions: int, tries: int, times: int = 500) -> Iterator[float]:
    """Coverage with several tries of questions that differ in how hard they are."""
    times //= 1 + questions // 500
    random = np.random.default_rng(questions + tries)
    shares = [_shares(random, accuracy, shared, (times, questions)) for shared in SHARED for accuracy in ACCURACIES]
    means = random.binomial(tries, np.concatenate(shares)) / tries
    low, high = intervals(means.mean(axis=1), np.square(means).mean(axis=1), questions, tries)
    for part, accuracy in enumerate(ACCURACIES * len(SHARED)):
        one = slice(part * times, (part + 1) * times)
        yield float(((low[one] <= accuracy) & (accuracy <= high[one])).mean())


def _shares(random: np.random.Generator, accuracy: float, shared: float, size: tuple[int, int]) -> Floats:
    """Probabilities of a correct answer for each question, from a beta distribution."""
    if not shared:
        return np.full(size, accuracy)
    weight = 1 / shared - 1
    return random.beta(accuracy * weight, (1 - accuracy) * weight, size)


@pytest.mark.parametrize("tries", [1, 2, 4, 8])
@pytest.mark.parametrize("questions", [10, 20, 50, 100, 1000])
def test_the_interval_holds_the_accuracy_in_94_to_97_of_100_evaluations(questions: int, tries: int) -> None:
    """With ten questions and several tries in slightly more: see `intervals` on the ends."""
    found = list(counted(questions) if tries == 1 else simulated(questions, tries))
    assert 0.94 < sum(found) / len(found) < (0.97 if questions > 10 or tries == 1 else 0.978)
    assert min(found) > 0.91
