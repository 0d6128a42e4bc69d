"""Evaluates the compiled graph on items: concurrently, bounded, and without losing one.

- *The denominator is the dataset.* Every item ends as a `Record`; one that crashed is wrong, never absent.
- *What is wrong with the settings ends the evaluation at once*: every further item would fail alike.
- *Records are handed over as items end*, for a journal to keep and a progress bar to show.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from agentflow.evals.episode import Episode
from agentflow.evals.rollout import Finished, rollout
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models import ModelError


@dataclass(frozen=True)
class Item:
    """One task of a benchmark."""

    question: str
    gold: str
    family: str
    correct: Callable[[str], bool]
    """Whether an answer is correct; `gold` is one that is."""
    sample: int = 0
    """Number of the try, where each question is asked several times."""

    @property
    def id(self) -> str:
        """By content, so that it is the same wherever the item stands in a dataset."""
        content = hashlib.sha256(f"{self.family}\n{self.question}\n{self.gold}".encode()).hexdigest()[:16]
        return f"{content}-{self.sample}" if self.sample else content


def sampled(items: Sequence[Item], samples: int) -> list[Item]:
    """Every item `samples` times, the first tries of all first."""
    return [replace(item, sample=number) for number in range(samples) for item in items]


class Record(BaseModel):
    """An item that ended, one line of episodes.jsonl."""

    id: str
    family: str
    question: str
    gold: str
    correct: bool
    episode: Episode

    @property
    def failed(self) -> bool:
        """Whether the run broke off: an endpoint was down, or the program has a fault. Not merely a wrong answer."""
        return self.episode.status == "failed"


async def evaluate(
    agent: Agent,
    items: Sequence[Item],
    context: Context,
    *,
    concurrency: int,
    on_end: Callable[[Record], None],
) -> None:
    """Runs every item, at most `concurrency` at a time; `on_end` gets each record as soon as it is there.

    Raises:
        ModelError: The settings are wrong; the items under way are given up.
    """
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            on_end(await run_item(agent, item, context))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(items))):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def run_item(agent: Agent, item: Item, context: Context) -> Record:
    """The record of one item. Raises ModelError if the settings are wrong, and nothing else but cancellation."""
    start = time.perf_counter()
    try:
        episode = await _episode(agent, item, context)
        correct = episode.status != "failed" and item.correct(episode.answer)
    except ModelError:
        raise
    except Exception as error:
        # The boundary of an item: whatever a graph, a tool or a checker raises is this item's, and the rest goes on.
        seconds = round(time.perf_counter() - start, 3)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        episode, correct = Episode(question=item.question, status="failed", error=reason, seconds=seconds), False
    return Record(
        id=item.id, family=item.family, question=item.question, gold=item.gold, correct=correct, episode=episode
    )


async def _episode(agent: Agent, item: Item, context: Context) -> Episode:
    *_, last = [event async for event in rollout(agent, item.question, context)]
    if not isinstance(last, Finished):
        raise RuntimeError("a rollout ended without its last event")
    if last.failure and last.failure.configuration:
        raise last.failure
    return last.episode


def unfinished(items: Sequence[Item], records: Iterable[Record]) -> list[Item]:
    """The items that have no record yet, and those whose run broke off."""
    ended = {record.id for record in records if not record.failed}
    return [item for item in items if item.id not in ended]
