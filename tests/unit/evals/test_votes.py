"""The majority vote: by the value of an answer, where a scorer reads one."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.benchmarks.own import benchmark_of
from agentflow.evals.record import CRASH, Record
from agentflow.evals.scorers.score import Decision, Score
from agentflow.evals.votes import majority
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace

OPTIONS: dict[str, Any] = {"options": {"A": "liver", "B": "heart"}, "letter": "B"}


def tried(bench: Benchmark, task: Task, answers: Sequence[str | None]) -> list[Record]:
    """Scored answers of one question; None broke off."""
    records = []
    for sample, answer in enumerate(answers):
        score = Score(Decision.INCORRECT, CRASH) if answer is None else bench.score(task, answer)
        trace = Trace(task=task, answer=answer or "", status="failed" if answer is None else "answered")
        records.append(Record.of(trace, bench.name, sample, score))
    return records


@pytest.mark.parametrize(
    ("name", "task", "answers", "right"),
    [
        ("aime24", Task.of("How many?", "204"), ["The answer is 204", "204", "204 minutes", "7", "7"], True),
        ("aime24", Task.of("How many?", "7"), ["The answer is 204", "204", "204 minutes", "7", "7"], False),
        ("medqa", Task.of("Which?", "B. heart", **OPTIONS), ["B", "The answer is B.", "heart", "A", "A"], True),
        ("bamboogle", Task.of("Is it?", "yes"), ["No", "No", "Yes, it is.", "yes", "Yes, as both are."], True),
        ("bamboogle", Task.of("Who?", "Ann Lee"), ["Bo", "The Bo", "Ann Lee", "Ann  Lee.", "ann lee"], True),
        ("bamboogle", Task.of("Who?", "Apollo 11"), ["Apollo 11", "Gemini 11", "Gemini 11"], False),
        ("bamboogle", Task.of("Who?", "Ann"), ["Bo", "Ann"], False),
        ("bamboogle", Task.of("Who?", "Ann"), [None, None, "Ann"], True),
        ("bamboogle", Task.of("Who?", "Ann"), [None, None], False),
    ],
)
def test_the_most_frequent_value_counts(name: str, task: Task, answers: list[str | None], right: bool) -> None:
    assert majority(tried(benchmark(name), task, answers)) == right


def test_a_value_is_right_if_a_try_that_states_it_is() -> None:
    """The rule for texts leaves the sentence undecided."""
    quiz = benchmark_of("quiz", [{"question": "How many?", "answer": 204}])
    [task] = quiz.tasks()
    assert majority(tried(quiz, task, ["The answer is 204", "204", "7"])) == 1


def test_it_is_a_mean_over_questions_and_needs_several_tries() -> None:
    bench = benchmark("bamboogle")
    first, second = Task.of("Who?", "Ann"), Task.of("Where?", "Rome")
    records = tried(bench, first, ["Ann", "Ann", "Bo"]) + tried(bench, second, ["Oslo", "Rome", "oslo."])
    assert majority(records) == 0.5
    assert majority([records[0], records[3]]) is None
    assert majority([]) is None
