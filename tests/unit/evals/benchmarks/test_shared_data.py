"""Whole data sets, where they lie beside the repository (`../shared/data`, see its README); else skipped."""

import csv
from itertools import pairwise
from pathlib import Path

import pytest

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from tests.cases import table
from tests.failing import fails

DATA = Path(__file__).parents[5] / "shared" / "data"
FILES = {name: (file, number) for name, file, number in table(__file__, "shared_data.txt")}
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no benchmark files beside the repository")


@pytest.mark.parametrize("name", FILES)
def test_every_question_loads_and_its_gold_answer_is_correct_and_another_is_not(name: str) -> None:
    file, number = FILES[name]
    found = benchmark(name)
    tasks = found.tasks(file=DATA / file)
    assert len({one.id for one in tasks}) == len(tasks) == number
    assert [one.gold for one in tasks if not found.score(one, one.gold).correct] == []
    strangers = [(one, other) for one, other in pairwise(tasks) if one.gold[0] != other.gold[0]]
    assert not any(found.score(one, other.gold).correct for one, other in strangers)
    assert not any(found.score(one, "").correct for one in tasks)


@pytest.mark.parametrize("name", ["bamboogle", "aime24", "amc23", "medqa"])
def test_the_official_subset_is_found_in_the_whole_data_set_in_its_own_order(name: str) -> None:
    official = benchmark(name).tasks("official", DATA / FILES[name][0])
    assert {one.id for one in official} <= {one.id for one in benchmark(name).tasks(file=DATA / FILES[name][0])}
    assert len(official) == {"bamboogle": 125, "aime24": 30, "amc23": 40, "medqa": 100}[name]
    assert name != "medqa" or official[0].gold == "C. Colorectal cancer"


def test_a_file_that_has_only_some_official_questions_says_so() -> None:
    with fails(BenchmarkError, "missing_questions", 100, "musique"):
        benchmark("musique").tasks("official", DATA / "musique_500.jsonl")


def test_the_generated_puzzles_are_those_of_tree_of_thoughts() -> None:
    with (DATA / "game24_tot.csv").open() as file:
        ranked = [sorted(map(int, row["Puzzles"].split())) for row in csv.DictReader(file)]
    assert [one.data["numbers"] for one in benchmark("game24").tasks()] == sorted(ranked)
    assert [one.data["numbers"] for one in benchmark("game24").tasks("tot-hard")] == ranked[900:1000]
