"""Official subsets, by hash: in order, whole, and without a question in them."""

import re

import pytest

from agentflow.evals.benchmarks.catalogue import BENCHMARKS
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.subsets import FOLDER, chosen, key, listed
from agentflow.graph.run.task import Task
from tests.failing import fails


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
