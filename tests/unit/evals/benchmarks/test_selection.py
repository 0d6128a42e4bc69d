"""Selection of tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.selection import Selection, range_of
from agentflow.graph.run.task import Task
from tests.failing import fails

QUESTIONS = [Task.of(f"question {n}?", str(n + 1), "odd" if n % 2 else "even") for n in range(40)]


def test_without_a_word_all_are_asked() -> None:
    assert not Selection(seed=3)
    assert Selection().of(QUESTIONS) == QUESTIONS


@pytest.mark.parametrize("length", [16, 12])
def test_by_id_or_its_beginning_in_the_order_of_the_benchmark(length: int) -> None:
    wanted = [QUESTIONS[7], QUESTIONS[3]]
    assert Selection(ids=[one.id[:length] for one in wanted]).of(QUESTIONS) == [QUESTIONS[3], QUESTIONS[7]]


def test_each_part_narrows_what_the_one_before_has_left() -> None:
    found = Selection(families=["odd"], span="5:15", sample=4).of(QUESTIONS)
    odd = [one for one in QUESTIONS if one.family == "odd"][5:15]
    assert len(found) == 4
    assert [one for one in odd if one in found] == found


@given(st.integers(1, 39), st.integers(0, 100))
def test_a_larger_sample_keeps_the_smaller_one(number: int, seed: int) -> None:
    smaller, larger = (Selection(sample=n, seed=seed).of(QUESTIONS) for n in (number, number + 1))
    assert len(smaller) == number
    assert {one.id for one in smaller} < {one.id for one in larger}
    assert smaller == Selection(sample=number, seed=seed).of(QUESTIONS)


def test_seeds_draw_different_ones_and_a_family_as_many_as_it_has() -> None:
    assert Selection(sample=5, seed=1).of(QUESTIONS) != Selection(sample=5, seed=2).of(QUESTIONS)
    families = [one.family for one in Selection(per_family=3).of(QUESTIONS)]
    assert (families.count("odd"), families.count("even")) == (3, 3)
    assert len(Selection(per_family=99).of(QUESTIONS)) == 40


@pytest.mark.parametrize(
    "selection",
    [Selection(ids=["no"]), Selection(ids=[""]), Selection(families=["none"]), Selection(span="40:")],
)
def test_what_selects_nothing_or_more_than_one_is_an_error(selection: Selection) -> None:
    with pytest.raises(BenchmarkError):
        selection.of(QUESTIONS)


@pytest.mark.parametrize(
    ("text", "span"), [("2:5", (2, 5)), ("2:", (2, None)), (":5", (0, 5)), (":", (0, None)), ("", (0, None))]
)
def test_a_range(text: str, span: tuple[int, int | None]) -> None:
    assert range_of(text) == slice(*span)


@pytest.mark.parametrize("text", ["5", "5:5", "5:2", "a:b", "-3:", "1:2:3"])
def test_no_range(text: str) -> None:
    with fails(BenchmarkError, "bad_range", text):
        range_of(text)
