"""Number of questions that a difference needs, against published values and simulated evaluations."""

import numpy as np
import pytest

from agentflow.evals.power import PlannedComparison, between
from agentflow.evals.statistics import compare


def test_single_tries_agree_with_published_sizes() -> None:
    """Fleiss, Levin and Paik, "Statistical methods for rates and proportions", 2003: without their correction."""
    assert PlannedComparison(0.5, 0.6).unpaired == pytest.approx(388, abs=1)
    assert PlannedComparison(0.1, 0.2).unpaired == pytest.approx(199, abs=1)
    assert PlannedComparison(0.6, 0.5).unpaired == PlannedComparison(0.5, 0.6).unpaired


def test_questions_that_differ_are_worth_pairing() -> None:
    alike, differing = (PlannedComparison(0.5, 0.55, between=share) for share in (0.0, 0.8))
    assert alike.paired == pytest.approx(alike.unpaired, rel=0.04)
    assert differing.paired < 0.3 * differing.unpaired


def test_more_tries_save_questions_as_far_as_tries_differ() -> None:
    assert PlannedComparison(0.5, 0.55, tries=8, between=0.0).unpaired == pytest.approx(
        PlannedComparison(0.5, 0.55).unpaired / 8, rel=0.01
    )
    assert PlannedComparison(0.5, 0.55, tries=8, between=1.0).unpaired == PlannedComparison(0.5, 0.55).unpaired


def test_the_test_takes_some_questions_whatever_the_difference() -> None:
    """Six questions that all differ the same way have a p-value of 1/32."""
    assert PlannedComparison(0.0, 1.0, between=1.0).paired == 6
    assert PlannedComparison(0.0, 1.0).unpaired == 6


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.98, 1.03), (-0.1, 0.5)])
def test_what_is_no_difference_of_accuracies_is_refused(first: float, second: float) -> None:
    with pytest.raises(ValueError, match=r"accuracy|difference"):
        PlannedComparison(first, second)


@pytest.mark.parametrize(
    "plan",
    [PlannedComparison(0.4, 0.55), PlannedComparison(0.5, 0.6, tries=4, between=0.3), PlannedComparison(0.85, 0.95)],
)
def test_that_many_questions_show_it_in_four_of_five_evaluations(plan: PlannedComparison) -> None:
    """Probabilities of a correct answer from one beta distribution, at the same quantile for both."""
    random, times, shown = np.random.default_rng(7), 300, 0
    weight = 1 / plan.between - 1
    pool = [np.sort(random.beta(mean * weight, (1 - mean) * weight, 20_000)) for mean in (plan.first, plan.second)]
    for _ in range(times):
        drawn = random.integers(0, 20_000, plan.paired)
        tries = [
            {str(n): list(random.random(plan.tries) < chance) for n, chance in enumerate(chances[drawn])}
            for chances in pool
        ]
        shown += compare(*tries).shown
    assert 0.74 < shown / times < 0.93  # the exact test has few p-values, so that some more are asked for


def test_how_much_questions_differ_is_read_off_their_tries() -> None:
    random = np.random.default_rng(3)
    chances = random.beta(1, 1, 4000)  # of a variance of 1/12, of 1/4 in all
    tries = {str(n): [bool(one) for one in random.random(4) < chance] for n, chance in enumerate(chances)}
    assert between(tries) == pytest.approx(1 / 3, abs=0.03)
    assert between({"a": [True, True], "b": [False, False]}) == 1.0
    assert between({"a": [True, False], "b": [False, True]}) == 0.0


@pytest.mark.parametrize(
    "tries", [{}, {"a": [True], "b": [False]}, {"a": [True, False]}, {"a": [True] * 2, "b": [True] * 2}]
)
def test_what_tells_nothing_of_it_is_none(tries: dict[str, list[bool]]) -> None:
    assert between(tries) is None
