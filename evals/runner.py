"""Evaluates a compiled graph on benchmarks: concurrently, bounded, and without losing an item.

- *The denominator is the dataset.* Every item ends as a `Record`; one that crashed is wrong, never absent.
- *What is wrong with the settings ends the evaluation at once*: every further item would fail alike.
- *Records are handed over as items end*, for a results store to keep and a progress bar to show.
- *A sandbox that fails is not a wrong answer either*: the item is run once more, and then counts as one that crashed.
- *A judge that fails is not a wrong answer.* The answer is kept, undecided, and can be judged later.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentflow.evals.benchmarks.benchmark import AnswerJudge, Benchmark
from agentflow.evals.cost import UNLIMITED, Budget
from agentflow.evals.record import CRASH, JUDGE_FAILED, Key, Record
from agentflow.evals.rollout import Finished, reason, rollout
from agentflow.evals.scorers.score import Decision, Score, undecided
from agentflow.evals.task import Task
from agentflow.evals.trace import Trace
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.tools.redaction import redacted
from agentflow.tools.sandbox.limits import SandboxError


@dataclass(frozen=True)
class Item:
    """One try of one question."""

    benchmark: Benchmark
    task: Task
    sample: int = 0
    """Number of the try, where each question is asked several times."""

    @property
    def key(self) -> Key:
        """That of its record."""
        return self.benchmark.name, self.task.id, self.sample


@dataclass(frozen=True)
class Runner:
    """How items are run and scored."""

    agent: Agent
    context: Context
    """Where its corpus is "auto", a benchmark that brings one is asked with that."""
    judge: AnswerJudge | None = None
    seconds: float | None = None
    """Most seconds of one item, its judging left out."""
    retries: int = 0
    """Most repetitions of an item that breaks off."""
    budget: Budget = UNLIMITED
    """Most tokens and dollars of one run of an item."""

    async def run(
        self,
        items: Sequence[Item],
        *,
        concurrency: int,
        on_end: Callable[[Record], None],
        answered: Mapping[Key, Record] | None = None,
    ) -> None:
        """Runs every item, at most `concurrency` at a time; `on_end` gets each record as soon as it is there.

        An item that has a record in `answered` is not asked again, only scored.

        Raises:
            ModelError: The settings are wrong; the items under way are given up.
        """
        waiting = iter(items)

        async def worker() -> None:
            for item in waiting:
                earlier = (answered or {}).get(item.key)
                on_end(await self.record(item, earlier))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(items))):
                    group.create_task(worker())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def record(self, item: Item, trace: Trace | None = None) -> Record:
        """The record of one item, or of a trace of it that is there already.

        Raises ModelError if the settings are wrong, and nothing else but cancellation.
        """
        trace = trace or await self._trace(item)
        try:
            score = await self._score(item, trace)
        except ModelError:
            raise
        except Exception as error:  # the boundary of an item: a fault of a scorer is this item's, and the rest goes on
            trace, score = trace.failed_with(reason(error)), Score(Decision.INCORRECT, CRASH)
        return Record.of(trace, item.benchmark.name, item.sample, score)

    async def _trace(self, item: Item) -> Trace:
        """The run of an item; one that breaks off is run again, and once at least where it was the sandbox that failed.

        The last run counts, with its own usage.
        """
        finished, again = await self._run(item), 0
        while finished.trace.status == "failed":
            again += 1
            if again > max(self.retries, int(isinstance(finished.failure, SandboxError))):
                break
            finished = await self._run(item)
        return finished.trace

    async def _run(self, item: Item) -> Finished:
        """Run an item once. Raises ModelError if the settings are wrong."""
        context = self._context(item.benchmark)
        finished = await rollout(self.agent, item.task, context, seconds=self.seconds, budget=self.budget)
        if isinstance(finished.failure, ModelError) and finished.failure.configuration:
            raise finished.failure
        return finished

    def _context(self, benchmark: Benchmark) -> Context:
        own = self.context.corpus == "auto"
        return self.context.model_copy(update={"corpus": benchmark.corpus}) if own else self.context

    async def _score(self, item: Item, trace: Trace) -> Score:
        if trace.status == "failed":
            return Score(Decision.INCORRECT, CRASH)
        try:
            return await item.benchmark.decide(item.task, trace.answer, self.judge)
        except ModelError as error:
            if error.configuration:
                raise
            return undecided(redacted(f"{JUDGE_FAILED}: {error}"))


def items(benchmark: Benchmark, tasks: Sequence[Task], epochs: int = 1) -> list[Item]:
    """Every task `epochs` times, the first tries of all first."""
    return [Item(benchmark, task, sample) for sample in range(epochs) for task in tasks]


def unfinished(items: Sequence[Item], records: Mapping[Key, Record], *, retry: bool = False) -> list[Item]:
    """The items that have no record yet; with `retry` also those whose run broke off or whose judge failed."""
    return [
        item
        for item in items
        if (record := records.get(item.key)) is None or (retry and (record.failed or record.judge_failed))
    ]
