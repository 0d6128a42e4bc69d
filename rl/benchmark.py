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
from agentflow.evals.benchmarks.example import BenchmarkError, Example
from agentflow.evals.judge import Judge
from agentflow.rl.planner import trainable
from agentflow.rl.trainable import AppError, Split, Task, Trainable

TEST_SHARE = 5
"""One question in so many is a test question."""


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
    try:
        found = catalogue.benchmark(name)
        held_out = catalogue.benchmark(test) if test else None
    except BenchmarkError as error:
        raise AppError(str(error)) from error
    decides = Judge(judge) if judge else None

    @cache
    def examples(split: Split) -> list[Example]:
        try:
            if held_out and split == "test":
                return held_out.examples()
            every = found.examples(subset, Path(file) if file else None)
        except BenchmarkError as error:
            raise AppError(str(error)) from error
        if held_out:
            return every
        return [one for one in every if (int(one.id, 16) % TEST_SHARE == 0) == (split == "test")]

    @cache
    def held_out_ids() -> set[str]:
        return {one.id for one in examples("test")}

    def tasks(split: Split, number: int) -> list[Task]:
        return [Task(**one.model_dump()) for one in examples(split)[:number]]

    async def reward(task: Task, state: Any) -> float | None:
        scorer = held_out if held_out and task.id in held_out_ids() else found
        return await scorer.reward(Example(**task.model_dump()), str(state["answer"]), decides)

    search = {"search_engine": search_engine, "search_cache": search_cache}
    search["corpus"] = found.corpus if corpus == "auto" else corpus
    settings = {"model": frozen, "max_turns": max_turns, "tools": list(tools), **search}
    return trainable(name, agent, tasks, reward, nodes=nodes, max_tokens=max_tokens, settings=settings)
