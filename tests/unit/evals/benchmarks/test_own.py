"""Benchmarks of the user's own: a file, rows, a `Benchmark` or a function; what is none says why on one line."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentflow.evals.benchmarks.benchmark import Judging
from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.own import benchmark_of
from agentflow.evals.benchmarks.store import DatasetSource
from agentflow.evals.runs import read_runs
from agentflow.evals.scorers.score import Decision, decided
from agentflow.rl.apps import benchmark as training
from tests.cases import table
from tests.command_line import succeeds
from tests.failing import fails
from tests.scripted import GUESS, Scripted

HERE = "tests.unit.evals.benchmarks.test_own"

QUIZ = [
    {"question": "Which strait divides Istanbul?", "answer": ["Bosphorus", "Bosporus"], "type": "places"},
    {"question": "What is 6 times 7?", "answer": 42},
]
CHOICE = [{"question": "Which organ pumps blood?", "options": ["liver", "heart"], "answer": "B"}]
EVEN = benchmark_of(
    "even",
    [{"question": f"Name an even number above {floor}.", "answer": "any", "above": floor} for floor in (3, 10)],
    rule=lambda one, answer: decided(int(answer) > one.data["above"] and int(answer) % 2 == 0, "even"),
)
ATLAS = benchmark_of("atlas", QUIZ)
GATED = replace(EVEN, name="gated", source=DatasetSource("a/b", ("x.csv",), 1, gated=True))
NUMBER = 7
EMPTY: list[object] = []
KEYS = [{**QUIZ[0], 7: "seven"}]
VALUES = [{**QUIZ[0], "check": len}]
WRONG = [{"question": "Where?", "answer": "here"}, {"question": "Where else?"}]


def made() -> object:
    return QUIZ


def unlicensed() -> object:
    raise RuntimeError("no licence file\nat all")


@pytest.mark.parametrize("attribute", ["QUIZ", "made"])
def test_rows_are_a_benchmark_of_short_texts(attribute: str) -> None:
    found = benchmark(f"{HERE}:{attribute}")
    strait, product = found.tasks()
    assert (found.name, found.size, found.judging) == (attribute, 2, Judging.DECIDES)
    assert strait.family == "places"
    assert found.score(strait, "Answer: the Bosporus").correct
    assert found.score(product, "42.0").correct
    assert found.score(product, "I do not know").decision == Decision.INCORRECT
    assert found.score(strait, "the Dardanelles").decision == Decision.UNDECIDED


@pytest.mark.parametrize(
    ("score_as", "gold", "answer", "decision"),
    [
        ("number", "3,677 seats", "3677", "correct"),
        ("number", "3,677 seats", "3678", "incorrect"),
        ("exact", "007", "The answer is 007.", "correct"),
        ("exact", "007", "7", "incorrect"),
        (None, "007", "7", "correct"),
    ],
)
def test_a_column_names_the_rule(score_as: str | None, gold: str, answer: str, decision: str) -> None:
    found = benchmark_of("quiz", [{"question": "Which?", "answer": gold, "score_as": score_as}])
    [one] = found.tasks()
    assert found.score(one, answer).decision == decision


def test_rows_with_options_are_multiple_choice() -> None:
    found = benchmark(f"{HERE}:CHOICE")
    [organ] = found.tasks()
    assert found.judging == Judging.EXTRACTS
    assert [found.score(organ, answer).correct for answer in ("B", "A")] == [True, False]


def test_a_file_is_a_benchmark_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUIZ))
    found = benchmark(str(path))
    assert (found.name, found.tasks()) == ("quiz.jsonl", benchmark(f"{HERE}:QUIZ").tasks())


@pytest.mark.parametrize(("spec", "code", "named"), table(__file__, "own.txt"))
def test_what_is_none_says_why_on_one_line(spec: str, code: str, named: str) -> None:
    with fails(BenchmarkError, code, named):
        benchmark(spec)


def test_a_file_of_another_suffix_is_told_which(tmp_path: Path) -> None:
    (tmp_path / "quiz.txt").write_text("{}")
    with fails(BenchmarkError, "unknown_benchmark", "quiz.txt has to end in .jsonl"):
        benchmark(str(tmp_path / "quiz.txt"))


def test_the_command_evaluates_on_it_from_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_bench.py").write_text(f"from {HERE} import QUIZ\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    Scripted(**GUESS, generator="Answer: 42").install(monkeypatch)
    call = ("eval", "their_bench:QUIZ", "--out", "out")
    first = succeeds(*call).stdout
    assert succeeds(*call).stdout == first
    [cell] = read_runs([Path("out")])[0].cells
    assert (cell.benchmark, cell.questions, cell.accuracy) == ("QUIZ", 2, 0.5)


async def test_its_own_rule_sees_the_columns_of_a_row_and_it_can_be_trained_on() -> None:
    assert benchmark(f"{HERE}:EVEN").judging == Judging.NEVER
    app = training.benchmark(f"{HERE}:EVEN", frozen="embedded")
    tasks = sorted([*app.tasks("train", 5), *app.tasks("test", 5)], key=lambda task: task.data["above"])
    rewards = [[await app.reward(task, {"answer": answer}) for answer in ("12", "4")] for task in tasks]  # type: ignore[misc]
    assert rewards == [[1.0, 1.0], [1.0, 0.0]]
