"""Concurrent evaluation of a compiled graph on benchmarks.

- *The denominator is the dataset.* Every item ends as a `Record`; one that failed counts as wrong and is never absent.
- *Wrong settings end the evaluation at once*, since every further item would fail in the same way.
- *Each record is passed on when its item ends*, to a results store and a progress bar.
- *An outage is not a wrong answer*: an item whose model server or sandbox fails is repeated once before it counts as
  failed.
- *A failure of the judge is not a wrong answer*: the answer is stored as undecided and can be judged later.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentflow.evals.benchmarks.benchmark import AnswerJudge, Benchmark
from agentflow.evals.record import CRASH, JUDGE_FAILED, NO_PLAN, Key, Record
from agentflow.evals.scorers.score import Decision, Score, undecided
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.cost import UNLIMITED, Budget
from agentflow.graph.run.garbage import rarely_collected
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.tools.redaction import redacted
from agentflow.tools.sandbox.limits import SandboxError

OUTAGES = {"cut", "rate_limit", "server_error", "timeout", "unreachable"}
"""Codes of a ModelError whose server does not do its work for now."""


@dataclass(frozen=True)
class Item:
    """One sample of a task."""

    benchmark: Benchmark
    task: Task
    sample: int = 0
    """Index of the sample, from 0."""

    @property
    def key(self) -> Key:
        """Return the key of its record."""
        return self.benchmark.name, self.task.id, self.sample


@dataclass(frozen=True)
class ItemRunner:
    """Runs and scores items."""

    agent: Agent
    context: Context
    """Settings of each run. If its corpus is "auto", the benchmark's own corpus is used."""
    judge: AnswerJudge | None = None
    seconds: float | None = None
    """Most seconds of one run of an item, without judging."""
    retries: int = 0
    """Most repetitions of an item that fails."""
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
        """Run every item, at most `concurrency` at a time; `on_end` is called with each record when its item ends.

        An item that has a record in `answered` is not run again, only scored. Raises ModelError, after cancelling the
        running items, if the settings are wrong.
        """
        waiting = iter(items)

        async def worker() -> None:
            for item in waiting:
                earlier = (answered or {}).get(item.key)
                on_end(await self.record(item, earlier))

        try:
            with rarely_collected():
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(concurrency, len(items))):
                        group.create_task(worker())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def record(self, item: Item, trace: Trace | None = None) -> Record:
        """Return the record of an item, from `trace` if given, else from a run.

        Raises ModelError if the settings are wrong, and no other exception except cancellation.
        """
        trace = trace or await self._trace(item)
        try:
            score = await self._score(item, trace)
        except ModelError:
            raise
        except Exception as error:  # the boundary of an item: a scorer's exception fails this item only
            trace, score = trace.failed_by(error), Score(Decision.INCORRECT, CRASH)
        return Record.of(trace, item.benchmark.name, item.sample, score)

    async def _trace(self, item: Item) -> Trace:
        """Return the trace of an item. A failed run is repeated `retries` times, at least once after an outage.

        The last run counts, with its own usage.
        """
        trace, again = await self._run(item), 0
        while trace.failure:
            again += 1
            outage = isinstance(trace.failure, SandboxError) or getattr(trace.failure, "code", "") in OUTAGES
            if again > max(self.retries, int(outage)):
                break
            trace = await self._run(item)
        return trace

    async def _run(self, item: Item) -> Trace:
        """Run an item once. Raises ModelError if the settings are wrong."""
        context = self.context
        if context.corpus == "auto":
            context = context.model_copy(update={"corpus": item.benchmark.corpus})
        trace = await run(self.agent, item.task, context, seconds=self.seconds, budget=self.budget)
        if isinstance(trace.failure, ModelError) and trace.failure.configuration:
            raise trace.failure
        return trace

    async def _score(self, item: Item, trace: Trace) -> Score:
        if trace.status == "failed":
            return Score(Decision.INCORRECT, CRASH)
        if trace.status == "no_plan":
            return Score(Decision.INCORRECT, NO_PLAN)
        try:
            return await item.benchmark.decide(item.task, trace.answer, self.judge)
        except ModelError as error:
            if error.configuration:
                raise
            return undecided(redacted(f"{JUDGE_FAILED}: {error}"))


def items(benchmark: Benchmark, tasks: Sequence[Task], epochs: int = 1) -> list[Item]:
    """Return `epochs` samples of every task, ordered by sample."""
    return [Item(benchmark, task, sample) for sample in range(epochs) for task in tasks]


def unfinished(items: Sequence[Item], records: Mapping[Key, Record], *, retry: bool = False) -> list[Item]:
    """Return the items without a record; with `retry` also those that failed or whose judge failed."""
    return [
        item
        for item in items
        if (record := records.get(item.key)) is None or (retry and (record.failed or record.judge_failed))
    ]
