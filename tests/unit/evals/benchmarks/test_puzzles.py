"""Game of 24, whole: as many puzzles as there are, each with an expression that checks."""

from itertools import combinations_with_replacement, pairwise

import pytest

from agentflow.evals.atlas.arithmetic import first_expression
from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.puzzles import solution
from agentflow.evals.scorers.expression import makes_target


def test_all_1362_puzzles_are_solved_by_their_own_gold_answer() -> None:
    found = benchmark("game24")
    puzzles = found.tasks()
    assert len(puzzles) == found.size == 1362
    assert len({one.id for one in puzzles}) == 1362
    assert all(found.score(one, one.gold).correct for one in puzzles)
    assert not any(found.score(one, other.gold).correct for one, other in pairwise(puzzles))


def test_the_slices() -> None:
    official, hard = (
        [one.data["numbers"] for one in benchmark("game24").tasks(slice)] for slice in ("official", "tot-hard")
    )
    assert (len(official), official[0], official[-1]) == (100, [1, 1, 1, 8], [1, 2, 7, 10])
    assert (len(hard), hard[0]) == (100, [4, 5, 6, 10])


@pytest.mark.parametrize(("numbers", "target"), [((2, 3), 24), ((1, 1, 1), 7), ((5, 5, 5, 5), 1000)])
def test_what_cannot_be_made_has_no_solution(numbers: tuple[int, ...], target: int) -> None:
    assert solution(numbers, target) is None


def test_solutions_are_found_where_a_search_over_all_forms_finds_one() -> None:
    for numbers in combinations_with_replacement((1, 3, 5, 8), 4):
        found = solution(numbers)
        assert (found is None) == (first_expression(numbers, 24) is None), numbers
        assert found is None or makes_target(found, numbers, 24)
