"""Examples of a benchmark as items that the runner evaluates by rule."""

from collections.abc import Iterable

from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.example import Example
from agentflow.evals.runner import Item


def items(benchmark: Benchmark, examples: Iterable[Example]) -> list[Item]:
    """One item per example. What the rule leaves undecided is not correct; for a judge, see `Benchmark.decide`."""

    def item(one: Example) -> Item:
        family = one.family or benchmark.name
        return Item(one.question, one.gold, family, lambda answer: benchmark.score(one, answer).correct)

    return [item(one) for one in examples]
