"""Rollouts of a search: batches of tasks with a candidate's prompts, each recorded in the run folder.

A model, a judge or a sandbox that does not answer says nothing about a prompt: such a rollout is repeated, and the
search ends if that does not help. Every other failure has the reward 0, and the reflection model reads its reason.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import fsum

from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.cost import Budget, cost
from agentflow.graph.run.task import Task, identity
from agentflow.graph.run.trace import Usage
from agentflow.rl.prompts.attempt import Attempt, attempt
from agentflow.rl.prompts.errors import PromptsError, SearchInterrupted
from agentflow.rl.prompts.folder import Phase, PromptRollout, Reflection, SearchFolder
from agentflow.rl.prompts.targets import Target, Texts
from agentflow.rl.rollout import RolloutStatus
from agentflow.rl.trainable import Graph, Trainable

TRIES = 3
"""Times that a rollout is run whose model does not answer."""

CLIENTS = {"anthropic", "google", "httpcore", "httpx", "openai"}
"""Packages whose exceptions, passed on by a graph, mean that a model did not answer."""


def candidate_id(texts: Texts) -> str:
    """Return a hash of a candidate's prompts."""
    return identity(*(part for node, text in sorted(texts.items()) for part in (node, text)))


class Rollouts:
    """Runs rollouts and counts what they take."""

    def __init__(
        self,
        app: Trainable,
        graph: Graph,
        target: Target,
        folder: SearchFolder,
        budget: Budget,
        *,
        seconds: float,
        concurrency: int,
        on_rollout: Callable[[], None],
    ) -> None:
        """Run `app`, at most `concurrency` rollouts at a time; `on_rollout` is called when one has ended."""
        self._app, self._graph, self._target, self._folder, self._budget = app, graph, target, folder, budget
        self._seconds, self._on_rollout = seconds, on_rollout
        self._free = asyncio.Semaphore(concurrency)
        usages = [one.usage for one in folder.rollouts] + [one.usage for one in folder.reflections]
        self.dollars = fsum(map(self._dollars, usages))
        """Dollars spent on models whose price is known, those of earlier calls included."""
        self.unpriced = {name for usage in usages for name in budget.unpriced(usage)}
        """Models without a known price, while there is a limit of dollars."""

    @property
    def number(self) -> int:
        """Number of rollouts, those of earlier calls included."""
        return len(self._folder.rollouts)

    def reflected(self, reflection: Reflection) -> None:
        """Record and count a reflection."""
        self._folder.add_reflection(reflection)
        self._count(reflection.usage)

    async def play(self, tasks: Sequence[Task], texts: Texts, phase: Phase, *, again: bool = False) -> list[Attempt]:
        """Return the rollouts of `tasks`. One that the folder has is not run, unless `again`.

        Raises:
            PromptsError: The reward is no number from 0 to 1, or a model's settings are wrong.
            SearchInterrupted: A model or the sandbox did not answer, also when asked again.
        """
        known = {} if again else _known(self._folder.rollouts, candidate_id(texts), phase)

        async def played(task: Task) -> Attempt:
            if task.id in known:
                one = known[task.id]
                return Attempt(one.outcome, one.reward, one)
            async with self._free:
                return await self._play(task, texts, phase)

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(played(task)) for task in tasks]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [one.result() for one in running]

    async def _play(self, task: Task, texts: Texts, phase: Phase) -> Attempt:
        for _ in range(TRIES):
            found = await attempt(self._app, self._graph, task, self._target, texts, seconds=self._seconds)
            self._record(found, texts, phase)
            if found.status == RolloutStatus.BAD_REWARD:
                raise PromptsError(found.trace.error, code="bad_reward")
            if isinstance(found.failure, ModelError) and found.failure.configuration:
                raise PromptsError(found.trace.error, code=found.failure.code)
            if not _unanswered(found):
                return found
        raise SearchInterrupted(found.trace.error, code="no_answer")

    def _record(self, found: Attempt, texts: Texts, phase: Phase) -> None:
        systems: dict[str, list[str]] = {}
        for call in found.calls if phase == "before" else ():
            if call.system not in (known := systems.setdefault(call.node, [])):
                known.append(call.system)
        outcome = RolloutStatus.ENDPOINT_FAILED if _unanswered(found) else found.status
        known_fields = {"phase": phase, "candidate": candidate_id(texts), "outcome": outcome, "reward": found.reward}
        self._folder.add_rollout(PromptRollout(**found.trace.own_fields, **known_fields, systems=systems))
        self._count(found.trace.usage)
        self._on_rollout()

    def _count(self, usage: Usage) -> None:
        self.dollars += self._dollars(usage)
        self.unpriced.update(self._budget.unpriced(usage))

    def _dollars(self, usage: Usage) -> float:
        prices = self._budget.prices
        return fsum(cost({name: tokens}, prices) or 0.0 for name, tokens in usage.models.items())


def _known(rollouts: Iterable[PromptRollout], candidate: str, phase: Phase) -> dict[str, PromptRollout]:
    return {
        one.task.id: one
        for one in rollouts
        if one.candidate == candidate and one.phase == phase and one.outcome != RolloutStatus.ENDPOINT_FAILED
    }


def _unanswered(found: Attempt) -> bool:
    """Return whether a rollout ended since a model, a judge or the sandbox did not answer."""
    if isinstance(found.failure, ContextOverflowError | ModelInvalidRequestError):
        return False  # a prompt may be the cause
    packages = {kind.__module__.partition(".")[0] for kind in type(found.failure).__mro__}
    return found.status == RolloutStatus.ENDPOINT_FAILED or not packages.isdisjoint(CLIENTS)
