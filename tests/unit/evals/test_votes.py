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
from tests.cases import table


def tried(bench: Benchmark, task: Task, answers: Sequence[str | None]) -> list[Record]:
    """Scored answers of one question; None broke off."""
    records = []
    for sample, answer in enumerate(answers):
        score = Score(Decision.INCORRECT, CRASH) if answer is None else bench.score(task, answer)
        trace = Trace(task=task, answer=answer or "", status="failed" if answer is None else "answered")
        records.append(Record.of(trace, bench.name, sample, score))
    return records


@pytest.mark.parametrize(("name", "question", "gold", "more", "answers", "right"), table(__file__, "votes.txt"))
def test_the_most_frequent_value_counts(
    name: str, question: str, gold: str, more: dict[str, Any], answers: list[str | None], right: bool
) -> None:
    assert majority(tried(benchmark(name), Task.of(question, gold, **more), answers)) == right


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
