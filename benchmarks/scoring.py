"""Measure rule-based scoring: `python -m benchmarks.scoring`.

Builds the records of 10,000 traces, spread over the ten benchmarks, and prints the CPU seconds. Goal: less than 5.
"""

import asyncio
import time
from itertools import cycle, islice

from agentflow.evals.benchmarks.catalogue import benchmark
from agentflow.evals.runner import Item, Runner
from agentflow.graph.agent import graph
from agentflow.graph.context import Context
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace

TRACES, GOAL = 10_000, 5.0

REASONING = "First I look it up, then I compute 3 * 14 and compare both. " * 12
CHOICE = {
    "question": "Which organ pumps?",
    "options": {"A": "the liver", "B": "the heart", "C": "the lungs", "D": "none of the above"},
    "answer_idx": "B",
}
NUMBER = {"question": "How many?", "answer": 204}
SHORT = {"question": "When?", "answer": "3 November 1929", "aliases": ["November 1929", "1929"]}
ROWS = {
    **dict.fromkeys(("bamboogle", "2wiki", "hotpotqa", "musique"), SHORT),
    "gaia": {"question": "Which?", "answer": "b, c, 3"},
    **dict.fromkeys(("aime24", "amc23"), NUMBER),
    "game24": {"numbers": [3, 3, 8, 8]},
    **dict.fromkeys(("gpqa", "medqa"), CHOICE),
}
ANSWERS = (
    "204",
    f"{REASONING}\nAnswer: 8/(3-8/3)",
    f"{REASONING}<answer>B. the heart</answer>",
    f"{REASONING} \\boxed{{\\text{{3 November 1929}}}}",
    REASONING,
)


def items() -> list[Item]:
    """Return one question of each benchmark."""
    return [Item(benchmark(name), _task(name)) for name in ROWS]


def _task(name: str) -> Task:
    read = benchmark(name).read
    found = read({"file": name, **ROWS[name]}) if read else None
    if found is None:
        raise ValueError(f"{name} does not take its row")
    return found


async def seconds(asked: list[Item], number: int) -> float:
    """Return the CPU seconds to build `number` records."""
    evaluation = Runner(graph, Context())
    pairs = [(item, Trace(task=item.task, answer=answer, status="answered")) for answer in ANSWERS for item in asked]
    start = time.process_time()
    for item, trace in islice(cycle(pairs), number):
        await evaluation.record(item, trace)
    return time.process_time() - start


def main() -> None:
    """Print a line per benchmark and the total."""
    total = 0.0
    for item in items():
        number = TRACES // len(ROWS)
        taken = asyncio.run(seconds([item], number))
        total += taken
        print(f"{item.benchmark.name:<12}{number:>7,} traces {taken:6.2f} s")
    print(f"{'all':<12}{TRACES:>7,} traces {total:6.2f} s of {GOAL:g}")


if __name__ == "__main__":
    main()
