"""Game of 24, whole: as many puzzles as there are, each with an expression that is found and checked, and never run."""

from itertools import combinations_with_replacement, pairwise

import pytest

from agentflow.evals.atlas.arithmetic import first_expression, search_program
from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.puzzles import solution
from agentflow.evals.scorers.expression import makes_target
from agentflow.tools.catalogue import standard_tool
from agentflow.tools.run import run_tool
from agentflow.tools.search_settings import SearchSettings
from tests.waiting import LAST_RESORT


def test_all_1362_puzzles_are_solved_by_their_own_gold_answer() -> None:
    found = benchmark("game24")
    puzzles = found.tasks()
    assert len(puzzles) == found.size == 1362
    assert len({one.id for one in puzzles}) == 1362
    assert all(found.score(one, one.gold).correct for one in puzzles)
    assert not any(found.score(one, other.gold).correct for one, other in pairwise(puzzles))


def test_the_slices() -> None:
    official, hard, rest = (
        [one.data["numbers"] for one in benchmark("game24").tasks(slice)]
        for slice in ("official", "tot-hard", "tot-rest")
    )
    assert (len(official), official[0], official[-1]) == (100, [1, 1, 1, 8], [1, 2, 7, 10])
    assert (len(hard), hard[0]) == (100, [4, 5, 6, 10])
    assert len(rest) == 1262
    assert not [one for one in rest if one in hard]


@pytest.mark.parametrize(("numbers", "target"), [((2, 3), 24), ((1, 1, 1), 7), ((5, 5, 5, 5), 1000)])
def test_what_cannot_be_made_has_no_solution(numbers: tuple[int, ...], target: int) -> None:
    assert solution(numbers, target) is None


def test_solutions_are_found_where_a_search_over_all_forms_finds_one() -> None:
    for numbers in combinations_with_replacement((1, 3, 5, 8), 4):
        found = solution(numbers)
        assert (found is None) == (first_expression(numbers, 24) is None), numbers
        assert found is None or makes_target(found, numbers, 24)


@pytest.mark.parametrize(("numbers", "target"), [((3, 3, 8, 8), 24), ((1, 2, 3, 4), 24), ((2, 5, 5, 10), 47)])
async def test_the_program_prints_what_the_function_finds(numbers, target):
    async def ask(prompt: str) -> str:
        raise AssertionError("python_coder asks no model")

    tool = standard_tool("python_coder", ask, SearchSettings())
    found = first_expression(numbers, target)
    result = await run_tool(tool, {"code": search_program(numbers, target)}, timeout=LAST_RESORT)
    assert (result.output if result.status == "ok" else None) == found
