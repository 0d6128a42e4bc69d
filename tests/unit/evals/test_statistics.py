"""pass@k and the paired comparison, against every case counted out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.statistics import (
    SOUGHT,
    best_of_k,
    compare,
    holm,
    mean_pass_at_k,
    paired_interval,
    pass_at,
    pass_at_k,
    sign_flip,
)

TRIES = st.lists(st.booleans(), min_size=1, max_size=4)


@given(tried=st.lists(st.booleans(), min_size=1, max_size=8), data=st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_correct_try(tried: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(tried)))
    draws = [any(draw) for draw in combinations(tried, k)]
    assert pass_at_k(sum(tried), len(tried), k) == pytest.approx(sum(draws) / len(draws))


@given(rewards=st.lists(st.floats(0, 1), min_size=1, max_size=7), data=st.data())
def test_the_best_of_k_is_the_mean_maximum_of_all_draws(rewards: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(rewards)))
    draws = [max(draw) for draw in combinations(rewards, k)]
    assert best_of_k(rewards, k) == pytest.approx(sum(draws) / len(draws))


def test_levels_are_the_powers_of_two_and_the_number_of_samples() -> None:
    tries = {"a": [True, False, False, False, False], "b": [False] * 5}
    assert pass_at(tries) == pytest.approx({2: 0.2, 4: 0.4, 5: 0.5})
    assert [mean_pass_at_k(tries, k) for k in (1, 2, 6)] == [pytest.approx(0.1), pytest.approx(0.2), None]
    assert pass_at({"a": [True, False], "b": [True]}) == pass_at({}) == {}
    assert mean_pass_at_k({}, 1) is None


def counted(differences: Sequence[int]) -> float:
    """The p-value by all ways to set the signs."""
    flips = product((1, -1), repeat=len(differences))
    sums = [abs(sum(sign * one for sign, one in zip(signs, differences, strict=True))) for signs in flips]
    return sum(total >= abs(sum(differences)) for total in sums) / len(sums)


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_the_test_is_exact(differences: list[int]) -> None:
    assert sign_flip(differences) == pytest.approx(counted(differences))


@given(better=st.integers(0, 300), worse=st.integers(0, 300))
def test_with_one_try_it_is_mcnemars(better: int, worse: int) -> None:
    number = better + worse
    tail = sum(comb(number, n) for n in range(max(better, worse), number + 1)) / 2**number
    assert sign_flip([1] * better + [-1] * worse) == pytest.approx(min(1.0, 2 * tail), abs=1e-12)


def test_many_questions_with_many_tries_are_added_up_in_time() -> None:
    assert sign_flip([1, -2, 3, -4, 5, 64] * 5000) == pytest.approx(0.0, abs=1e-12)


def coverage(number: int, better: float, worse: float) -> float:
    """Return the coverage of the interval, from the probability of every outcome."""
    covered = 0.0
    for up in range(number + 1):
        for down in range(number + 1 - up):
            ways = comb(number, up) * comb(number - up, down)
            chance = ways * better**up * worse**down * (1 - better - worse) ** (number - up - down)
            low, high = paired_interval([1.0] * up + [-1.0] * down + [0.0] * (number - up - down))
            covered += chance * (low <= better - worse <= high)
    return covered


def test_the_interval_covers_the_difference() -> None:
    """At least 95 % coverage on average over all cases; the worst case is a planner that loses only, and rarely."""
    shares = (0.0, 0.05, 0.3)
    found = [coverage(number, *pair) for number in (10, 40) for pair in product(shares, shares)]
    assert sum(found) / len(found) > 0.95
    assert min(found) > 0.87


def test_a_comparison_has_the_pass_rates_that_both_allow() -> None:
    first = {"a": [True, False], "b": [False, False, True], "alone": [False]}
    second = {"a": [True, True, False, False], "b": [False, False]}
    assert compare(first, second).pass_at == (2, pytest.approx(5 / 6), pytest.approx(5 / 12))
    assert compare(first, {"a": [True]}).pass_at is None


@given(st.dictionaries(st.text(max_size=2), st.tuples(TRIES, TRIES), min_size=1, max_size=8))
def test_comparing_the_other_way_round_turns_the_signs(tries: dict[str, tuple[list[bool], list[bool]]]) -> None:
    first, second = ({question: pair[side] for question, pair in tries.items()} for side in (0, 1))
    there, back = compare(first, second), compare(second, first)
    assert there.difference == pytest.approx(-back.difference)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p_value == pytest.approx(back.p_value)
    assert there.low <= there.difference <= there.high
    assert there.difference == pytest.approx(there.second - there.first)


def test_only_common_questions_count() -> None:
    found = compare({"a": [True], "b": [False]}, {"b": [True], "c": [True]})
    assert (found.questions, found.first, found.second) == (1, 0.0, 1.0)
    for other in ({"b": [True]}, {"a": []}):
        with pytest.raises(ValueError, match="in common"):
            compare({"a": [True]}, other)


@pytest.mark.parametrize("tried", [3, 61])
def test_odd_numbers_of_tries_are_put_on_one_grid(tried: int) -> None:
    """The interval holds also if no common unit is small enough."""
    first = {str(n): [True] * (n % tried + 1) for n in range(100)}
    second = {str(n): [True] * (n % 7) + [False] * (n % tried + 1) for n in range(100)}
    assert compare(first, second).p_value < 1e-6


def test_differences_that_are_looked_at_together_are_corrected() -> None:
    """Holm's procedure: the least p-value times their number, and none less than the one before it."""
    one = compare({"a": [True]}, {"a": [False]})
    found = holm([replace(one, p_value=p) for p in (0.04, 0.01, 0.03, 0.8)])
    assert [comparison.corrected for comparison in found] == pytest.approx([0.09, 0.04, 0.09, 0.8])
    assert {comparison.among for comparison in found} == {4}
    assert holm([one]) == [one]
    assert holm([]) == []


@pytest.mark.parametrize(("tries", "share"), [(1, 0.3), (4, 0.5)])
def test_so_many_questions_show_five_points_in_four_of_five_evaluations(tries: int, share: float) -> None:
    random = np.random.default_rng(7)

    def evaluations(questions: int) -> list[dict[str, list[bool]]]:
        chances = random.uniform(share - 0.2, share + 0.2, questions)
        both = (random.random((tries, questions)) < chance for chance in (chances, chances + SOUGHT))
        return [{str(n): list(drawn[:, n]) for n in range(questions)} for drawn in both]

    needed = compare(*evaluations(4_000)).needed
    shown = sum(compare(*evaluations(needed)).shown for _ in range(50))
    assert 34 < shown < 47
