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
        cell(ALONE, 1, (0, 0.5), (100, 0.6), (210, 0.8)),
        cell("separate", 0, (0, 0.5), (150, 0.75), (300, 0.9)),
        cell("separate", 1, (0, 0.5), (190, 0.25), (400, 0.9)),
    ]
    alone, separate = compared(cells)
    assert (alone.before, alone.accuracy, alone.difference, alone.steps) == (0.5, pytest.approx(0.65), None, [2, 1])
    assert (separate.accuracy, separate.steps, separate.collapsed, separate.runs) == (0.5, [1, 1], 1, 2)
    assert separate.difference is not None
    mean, low, high = separate.difference
    assert mean == pytest.approx(-0.15)
    assert low < mean < high
