"""Trainable app: AgentFlow's planner on a benchmark or a file of questions, rewarded by the benchmark's scorer.

Benchmarks are test sets: a planner that was trained on part of one cannot be evaluated on all of it. Train on Game of
24 or on your own file. If no benchmark of test questions is given, one question in five is held out, chosen by the hash
of its content.
"""

from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from agentflow.evals.agent_names import AgentName
from agentflow.evals.benchmarks import catalogue
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.benchmarks.own import benchmark_of, is_file
from agentflow.evals.judge import Judge
from agentflow.graph.context import MODULES
from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import GivenNodes, share_of
from agentflow.rl.apps.planner import trainable
from agentflow.rl.apps.trainable import AppError, Split, Trainable

_BENCHMARK = "agentflow_benchmark"
"""Key in a task's data that holds the name of the benchmark that rewards it."""


def benchmark(
    name: str | Sequence[str],
    frozen: str,
    test: str | Sequence[str] = "",
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
    undecided: float | None = None,
    result_role: Literal["user", "tool"] = "user",
) -> Trainable:
    """Build the trainable app of an agent on a benchmark.

    Args:
        name: Benchmark, as in `agentflow data list`; a file with the columns question and answer, or question and
            result; or `module:attribute`. The tasks of several take turns, so that their first ones are equally many.
        frozen: Model of the modules that are not trained.
        test: Benchmark of the test questions, named like `name`; by default, one in five questions of `name`.
        judge: Judge model for answers that the benchmark's rule cannot decide; without one, those rollouts are not
            trained on.
        subset: Subset of the benchmark; of several, of those that have it.
        file: File of questions in the benchmark's format, used instead of its own questions.
        tools: Tools that the planner may choose from.
        max_turns: Maximum number of planner turns in a rollout.
        max_tokens: Maximum number of tokens in one reply of any module: a step waits for its longest rollout.
        nodes: Modules that are trained; several share one policy.
        agent: Agent, as in `agentflow eval --agent`; with "react", the planner is the whole policy.
        corpus: Corpus of wikipedia_search, by default the one that suits the benchmark. If many rollouts search, use
            the address of a retrieval server.
        search_engine: Search engine of google_search.
        search_cache: Whether search tools cache their results, and where.
        undecided: Reward of an answer that neither the rule nor a judge decides; None: the rollout is not trained on.
        result_role: Role of the messages with results, as in `Context`; "tool" keeps the thoughts of earlier plans.
    """
    names, load = [name] if isinstance(name, str) else list(name), cache(_load)
    tested = [test] if isinstance(test, str) and test else list(test)
    named = {"train": names, "test": tested or names}
    for spec in {*names, *tested}:
        if not is_file(spec):
            load(spec)
    decides = Judge(judge) if judge else None

    @cache
    def tasks_of(spec: str, split: Split) -> list[Task]:
        own = named[split] == names
        try:
            known = load(spec)
            chosen = subset if own and (len(names) == 1 or subset in known.subsets) else ""
            every = known.tasks(chosen, Path(file) if file and own else None)
        except BenchmarkError as error:
            raise AppError(str(error), code=error.code) from error
        each = every if tested else share_of(every, split)
        return [task.model_copy(update={"data": {**task.data, _BENCHMARK: spec}}) for task in each]

    def tasks(split: Split, number: int) -> list[Task]:
        turns = zip_longest(*(tasks_of(spec, split) for spec in named[split]))
        return [task for turn in turns for task in turn if task][:number]

    async def reward(task: Task, state: Any) -> float | None:
        spec = task.data[_BENCHMARK]
        # A task from a file holds all that its scorer needs, so that workers need not read the file.
        scorer = benchmark_of(spec, [task.data]) if is_file(spec) else load(spec)
        found = await scorer.reward(task, str(state["answer"]), decides)
        return undecided if found is None else found

    search = {"search_engine": search_engine, "search_cache": search_cache}
    search["corpus"] = load(names[0]).corpus if corpus == "auto" and not is_file(names[0]) else corpus
    settings = {"model": frozen, "result_role": result_role, "max_turns": max_turns, "tools": list(tools), **search}
    settings["sampling"] = {module: {"max_tokens": max_tokens} for module in MODULES}
    return trainable(", ".join(names), agent, tasks, reward, nodes=nodes, settings=settings)


def _load(spec: str) -> Benchmark:
    """Load a benchmark by its name, file or `module:attribute`. Raises AppError."""
    try:
        return catalogue.benchmark(spec)
    except BenchmarkError as error:
        raise AppError(str(error), code=error.code) from error
