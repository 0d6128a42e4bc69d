"""Selection of tasks: by a user, and official subsets by hash: in order, whole, and without a question in them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.selection import Selection, range_of
from agentflow.evals.benchmarks.subsets import FOLDER, chosen, key, listed
from agentflow.graph.run.task import Task
from tests.failing import fails

QUESTIONS = [Task.of(f"question {n}?", str(n + 1), "odd" if n % 2 else "even") for n in range(40)]


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


def test_seeds_draw_different_ones() -> None:
    assert Selection(sample=5, seed=1).of(QUESTIONS) != Selection(sample=5, seed=2).of(QUESTIONS)


@pytest.mark.parametrize(
    ("text", "span"), [("2:5", (2, 5)), ("2:", (2, None)), (":5", (0, 5)), (":", (0, None)), ("", (0, None))]
)
def test_a_range(text: str, span: tuple[int, int | None]) -> None:
    assert range_of(text) == slice(*span)


@pytest.mark.parametrize("text", ["5", "5:5", "5:2", "a:b", "-3:", "1:2:3"])
def test_no_range(text: str) -> None:
    with fails(BenchmarkError, "bad_range", text):
        range_of(text)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_a_list_has_100_hashes_and_a_benchmark_that_offers_it(path) -> None:
    name, subset, ending = path.name.split(".")
    assert ending == "txt"
    assert subset in BENCHMARKS[name].subsets
    keys = listed(name, subset)
    assert len(set(keys)) == len(keys) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in keys)


def test_a_subset_comes_in_its_order_from_any_order_and_spelling(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("agentflow.evals.benchmarks.subsets.FOLDER", tmp_path)
    questions = ["Who built it?", "Where is it?", "When was it?"]
    (tmp_path / "some.official.txt").write_text("\n".join(key("some", question) for question in questions[:2]))
    tasks = [Task.of(question.upper() + " ", "x") for question in reversed(questions)]
    assert [one.question for one in chosen("some", "official", tasks)] == ["WHO BUILT IT? ", "WHERE IS IT? "]
    with fails(BenchmarkError, "missing_questions", 1, 2, "some"):
        chosen("some", "official", tasks[:-1])
