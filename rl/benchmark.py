"""AgentFlow's planner on a benchmark, with the scorer that evaluates it as the reward.

A benchmark is made for testing: what is trained on part of it says nothing about all of it. Game of 24, or a file of
one's own in a benchmark's form, is what this is for. The questions are split by the hash of their content, one in five
to the test split.
"""

from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from agentflow.evals.agents import AgentName
from agentflow.evals.benchmarks import catalogue
from agentflow.evals.benchmarks.example import BenchmarkError, Example
from agentflow.evals.judge import Judge
from agentflow.rl.planner import trainable
from agentflow.rl.trainable import AppError, Split, Task, Trainable

TEST_SHARE = 5
"""One question in so many is a test question."""


def benchmark(
    name: str,
    frozen: str,
    judge: str = "",
    subset: str = "",
    file: str = "",
    tools: Sequence[str] = ("base_generator", "python_coder", "google_search", "wikipedia_search"),
    max_turns: int = 3,
    max_tokens: int = 2048,
    nodes: Sequence[str] = ("planner",),
    agent: AgentName = "agentflow",
) -> Trainable:
    """An agent on a benchmark.

    Args:
        name: As in `agentflow data list`.
        frozen: Model of the modules that do not learn.
        judge: Model that is asked where the benchmark's rule is undecided; none: those rollouts are left out.
        subset: Of the benchmark.
        file: Questions in the benchmark's form, instead of its own.
        tools: What the planner may choose from.
        max_turns: Most planner turns of a rollout.
        max_tokens: Most tokens of one reply of the policy.
        nodes: The modules that learn; several share one policy.
        agent: As in `agentflow eval --agent`; of "react", the planner is the whole policy.
    """
    try:
        found = catalogue.benchmark(name)
    except BenchmarkError as error:
        raise AppError(str(error)) from error
    decides = Judge(judge) if judge else None

    @cache
    def examples() -> list[Example]:
        try:
            return found.examples(subset, Path(file) if file else None)
        except BenchmarkError as error:
            raise AppError(str(error)) from error

    def tasks(split: Split, number: int) -> list[Task]:
        ours = (one for one in examples() if (int(one.id, 16) % TEST_SHARE == 0) == (split == "test"))
        return [Task(**one.model_dump()) for one in islice(ours, number)]

    async def reward(task: Task, state: Any) -> float | None:
        return await found.reward(Example(**task.model_dump()), str(state["answer"]), decides)

    settings = {"model": frozen, "max_turns": max_turns, "tools": list(tools), "corpus": found.corpus}
    return trainable(name, agent, tasks, reward, nodes=nodes, max_tokens=max_tokens, settings=settings)
