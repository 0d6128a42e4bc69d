"""Trainable app: AgentFlow's planner on a benchmark or a file of questions, rewarded by the benchmark's scorer.

Benchmarks are test sets: a planner that was trained on part of one cannot be evaluated on all of it. Train on Game of
24 or on your own file. If no benchmark of test questions is given, one question in five is held out, chosen by the hash
of its content.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agentflow.evals.agent_names import AgentName
from agentflow.evals.benchmarks import catalogue
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.own import benchmark_of, is_file
from agentflow.evals.judge import Judge
from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import GivenNodes, share_of
from agentflow.rl.apps.planner import trainable
from agentflow.rl.apps.trainable import AppError, Split, Trainable

_SPLIT = "agentflow_split"
"""Key in a task's data that holds its split."""


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
    nodes: GivenNodes = ("planner",),
    agent: AgentName = "agentflow",
    corpus: str = "auto",
    search_engine: str = "auto",
    search_cache: str = "off",
) -> Trainable:
    """Build the trainable app of an agent on a benchmark.

    Args:
        name: Benchmark, as in `agentflow data list`; a file with the columns question and answer, or question and
            result; or `module:attribute`.
        frozen: Model of the modules that are not trained.
        test: Benchmark of the test questions, named like `name`; by default, one in five questions of `name`.
        judge: Judge model for answers that the benchmark's rule cannot decide; without one, those rollouts are not
            trained on.
        subset: Subset of the benchmark.
        file: File of questions in the benchmark's format, used instead of its own questions.
        tools: Tools that the planner may choose from.
        max_turns: Maximum number of planner turns in a rollout.
        max_tokens: Maximum number of tokens in one reply of the policy.
        nodes: Modules that are trained; several share one policy.
        agent: Agent, as in `agentflow eval --agent`; with "react", the planner is the whole policy.
        corpus: Corpus of wikipedia_search, by default the one that suits the benchmark. If many rollouts search, use
            the address of a retrieval server.
        search_engine: Search engine of google_search.
        search_cache: Whether search tools cache their results, and where.
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
            raise AppError(str(error), code=error.code) from error
        return every if test else share_of(every, split)

    def tasks(split: Split, number: int) -> list[Task]:
        return [task.model_copy(update={"data": {**task.data, _SPLIT: split}}) for task in all_tasks(split)[:number]]

    async def reward(task: Task, state: Any) -> float | None:
        spec = named[task.data[_SPLIT]]
        # A task from a file holds all that its scorer needs, so that workers need not read the file.
        scorer = benchmark_of(spec, [task.data]) if is_file(spec) else load(spec)
        return await scorer.reward(task, str(state["answer"]), decides)

    search = {"search_engine": search_engine, "search_cache": search_cache}
    search["corpus"] = load(name).corpus if corpus == "auto" and not is_file(name) else corpus
    settings = {"model": frozen, "max_turns": max_turns, "tools": list(tools), **search}
    return trainable(name, agent, tasks, reward, nodes=nodes, max_tokens=max_tokens, settings=settings)


def _load(spec: str) -> Benchmark:
    """Load a benchmark by its name, file or `module:attribute`. Raises AppError."""
    try:
        return catalogue.benchmark(spec)
    except BenchmarkError as error:
        raise AppError(str(error), code=error.code) from error
