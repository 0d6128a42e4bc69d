"""Comparison of policies trained together with the planner alone, at equal sampled tokens."""

import pytest

from benchmarks.policies import ALONE, Cell, Point, compared


def cell(way: str, seed: int, *ends: tuple[int, float]) -> Cell:
    """A run whose two questions have the same accuracy, by sampled tokens."""
    questions = [{"a": accuracy, "b": accuracy} for _, accuracy in ends]
    return Cell(way, seed, [Point(step, ends[step][0], questions[step]) for step in range(len(ends))])


def test_ways_are_compared_at_the_fewest_tokens_of_any_run() -> None:
    cells = [
        cell(ALONE, 0, (0, 0.5), (100, 0.6), (200, 0.7)),
        cell(ALONE, 1, (0, 0.5), (150, 0.6), (250, 0.8)),
        cell("separate", 0, (0, 0.5), (150, 0.75), (300, 0.9)),
        cell("separate", 1, (0, 0.5), (200, 0.25)),
    ]
    alone, separate = compared(cells)
    assert alone.tokens == separate.tokens == 200
    assert (alone.before, alone.accuracy, alone.difference) == (0.5, pytest.approx((0.7 + 0.7) / 2), None)
    assert (separate.accuracy, separate.collapsed, separate.runs) == (pytest.approx((0.8 + 0.25) / 2), 1, 2)
    assert separate.difference is not None
    mean, low, high = separate.difference
    assert mean == pytest.approx(0.525 - 0.7)
    assert low < mean < high


def test_a_run_counts_as_it_was_at_a_validation_and_between_two() -> None:
    run = cell(ALONE, 0, (0, 0.2), (100, 0.6), (300, 0.8))
    assert [run.at(tokens)["a"] for tokens in (0, 50, 100, 200, 300)] == pytest.approx([0.2, 0.4, 0.6, 0.7, 0.8])
