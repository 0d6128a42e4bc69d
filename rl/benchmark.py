"""AgentFlow's planner on a benchmark or a file of questions, rewarded by the scorer that evaluates it.

A benchmark is made for testing: a planner that was trained on part of it cannot be measured on all of it. Train on Game
of 24, or on a file of your own. Without a benchmark of held-out questions, one question in five is held out, by the
hash of its content.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agentflow.evals.agents import AgentName
from agentflow.evals.benchmarks import catalogue
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.own import benchmark_of, is_file
from agentflow.evals.judge import Judge
from agentflow.evals.task import Task
from agentflow.rl.planner import trainable
from agentflow.rl.trainable import AppError, Split, Trainable

TEST_SHARE = 5
"""One question in so many is a test question."""
_SPLIT = "agentflow_split"
"""Key of a task's data: the split that it is of."""


def benchmark(
    name: str,
    frozen: str,
    test: str = "",
    judge: str = "",
    subset: str = "",
    file: str = "",
    tools: Sequence[str] = ("base_generator", "python_coder", "google_search", "wikipedia_search"),
    max_turns: int = 3,
    max_tokens: int = 2048,
    nodes: Sequence[str] = ("planner",),
    agent: AgentName = "agentflow",
    corpus: str = "auto",
    search_engine: str = "auto",
    search_cache: str = "off",
) -> Trainable:
    """An agent on a benchmark.

    Args:
        name: As in `agentflow data list`; a file with the columns question and answer, or question and result; or
            `module:attribute`.
        frozen: Model of the modules that do not learn.
        test: The held-out questions, named likewise; without it, one in five of `name`.
        judge: Model that is asked where the benchmark's rule is undecided; none: those rollouts are left out.
        subset: Of the benchmark.
        file: Questions in the benchmark's form, instead of its own.
        tools: What the planner may choose from.
        max_turns: Most planner turns of a rollout.
        max_tokens: Most tokens of one reply of the policy.
        nodes: The modules that learn; several share one policy.
        agent: As in `agentflow eval --agent`; of "react", the planner is the whole policy.
        corpus: What wikipedia_search reads, by default what suits the benchmark; where many rollouts search, the
            address of a retrieval server.
        search_engine: What google_search asks.
        search_cache: Whether search tools keep what they find, and where.
    """
    named, load = {"train": name, "test": test or name}, cache(_load)
    for spec in {name, test} - {""}:
        if not is_file(spec):
            load(spec)
    decides = Judge(judge) if judge else None

    @cache
    def all_tasks(split: Split) -> list[Task]:
        own = named[split] == name
        try:
            every = load(named[split]).tasks(subset if own else "", Path(file) if file and own else None)
        except BenchmarkError as error:
            raise AppError(str(error)) from error
        if test:
            return every
        return [one for one in every if (int(one.id, 16) % TEST_SHARE == 0) == (split == "test")]

    def tasks(split: Split, number: int) -> list[Task]:
        return [task.model_copy(update={"data": {**task.data, _SPLIT: split}}) for task in all_tasks(split)[:number]]

    async def reward(task: Task, state: Any) -> float | None:
        spec = named[task.data[_SPLIT]]
        # Of a file, the task has all that its scorer needs, so that workers need not read the file.
        scorer = benchmark_of(spec, [task.data]) if is_file(spec) else load(spec)
        return await scorer.reward(task, str(state["answer"]), decides)

    search = {"search_engine": search_engine, "search_cache": search_cache}
    search["corpus"] = load(name).corpus if corpus == "auto" and not is_file(name) else corpus
    settings = {"model": frozen, "max_turns": max_turns, "tools": list(tools), **search}
    return trainable(name, agent, tasks, reward, nodes=nodes, max_tokens=max_tokens, settings=settings)


def _load(spec: str) -> Benchmark:
    """The benchmark of a name, a file or an object. Raises AppError."""
    try:
        return catalogue.benchmark(spec)
    except BenchmarkError as error:
        raise AppError(str(error)) from error
