"""The search: `gepa` over rollouts of an app, within a budget of rollouts and money, resumable at any time.

Tasks are of three kinds. The held-out ones are run with the default prompts before the search and with the best ones
after it. The others are halved: the reflection model reads rollouts of one half, and the other half decides which
candidate is best.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gepa
from gepa.core.adapter import EvaluationBatch
from langchain_core.language_models import BaseChatModel

from agentflow.graph.context import Context
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.cost import UNLIMITED, Budget
from agentflow.graph.run.task import Task, identity
from agentflow.rl.held_out import HeldOut
from agentflow.rl.prompts.attempt import Attempt
from agentflow.rl.prompts.errors import PromptsError, SearchInterrupted
from agentflow.rl.prompts.feedback import Record, record_of
from agentflow.rl.prompts.folder import GEPA, Phase, SearchFolder, SearchSettings
from agentflow.rl.prompts.reflect import reflect
from agentflow.rl.prompts.result import Found
from agentflow.rl.prompts.rollouts import Rollouts
from agentflow.rl.prompts.targets import Target, Texts, chosen, target_of
from agentflow.rl.rollout import RolloutStatus
from agentflow.rl.trainable import Graph, Trainable
from agentflow.tools.redaction import redacted

MINIBATCH = 3
"""Rollouts that one reflection reads."""

HOPELESS = 3
"""Candidates after which a search ends whose rollouts all have the reward 0."""


@dataclass(frozen=True)
class Request:
    """A search as it is asked for."""

    app: Trainable
    nodes: Sequence[str]
    """Patterns of the nodes whose prompts evolve; empty for all."""
    reflection: str
    """Model that writes prompts."""
    out: Path
    rollouts: int = 300
    """Most rollouts, the held-out ones included."""
    budget: Budget = UNLIMITED
    """Most dollars of all rollouts and reflections together."""
    limit: int = 40
    """Most tasks for feedback and validation."""
    held_out: int = 20
    """Most held-out tasks."""
    seconds: float = 300.0
    """Time limit of a rollout."""
    concurrency: int = 8
    seed: int = 0


@dataclass
class Progress:
    """State of a search under way."""

    rollouts: int = 0
    dollars: float = 0.0
    candidates: int = 0
    """Candidates that were validated, the default prompts included."""
    default: float | None = None
    """Validation score of the default prompts."""
    best: float | None = None
    """Best validation score so far."""


@dataclass(frozen=True)
class Tasks:
    """The tasks of a search by their use."""

    feedback: Sequence[Task]
    validation: Sequence[Task]
    held_out: Sequence[Task]

    @classmethod
    def of(cls, request: Request) -> "Tasks":
        """Take the tasks of an app. Raises PromptsError if there are too few."""
        learnt = request.app.tasks("train", request.limit)
        tasks = cls(learnt[::2], learnt[1::2], request.app.tasks("test", request.held_out))
        if not (tasks.validation and tasks.held_out):
            raise PromptsError(
                f"there are {len(learnt)} tasks to learn from and {len(tasks.held_out)} held out; at least 2 and 1 are "
                "needed (--tasks, --test)",
                code="too_few_tasks",
            )
        if request.rollouts < tasks.least:
            raise PromptsError(
                f"{request.rollouts} rollouts are too few for these tasks: one candidate takes {tasks.least}; give "
                "more --rollouts, or a smaller --limit or --held-out",
                code="too_few_rollouts",
            )
        return tasks

    @property
    def minibatch(self) -> int:
        """Number of rollouts that one reflection reads."""
        return min(MINIBATCH, len(self.feedback))

    @property
    def iteration(self) -> int:
        """Most rollouts of an iteration: a minibatch before and after, and a validation."""
        return 2 * self.minibatch + len(self.validation)

    @property
    def least(self) -> int:
        """Rollouts of a search with one iteration."""
        return 2 * len(self.held_out) + len(self.validation) + self.iteration

    @property
    def hash(self) -> str:
        """Hash of all tasks in their order."""
        every = (*self.feedback, *self.validation, *self.held_out)
        return identity(*(f"{task.id} {task.question}" for task in every))


def search(request: Request, on_progress: Callable[[Progress], None] = lambda progress: None) -> Found:
    """Search for better prompts, or continue the search in `request.out`, and return the best ones.

    Raises:
        AppError, PromptsError: Something in the request is wrong.
        SearchInterrupted: A model or the sandbox does not answer; the same call continues.
    """
    tasks = Tasks.of(request)
    try:
        model = load_model(request.reflection)
    except ModelError as error:
        raise PromptsError(str(error), code=error.code) from error
    context = request.app.context()
    settings = SearchSettings(
        app=request.app.name,
        nodes=[*request.nodes],
        context=context.model_dump(mode="json") if isinstance(context, Context) else None,
        reflection=request.reflection,
        tasks=tasks.hash,
        seconds=request.seconds,
        seed=request.seed,
    )
    with SearchFolder(request.out, settings) as folder, asyncio.Runner() as runner:
        return _Search(request, tasks, model, folder, runner, on_progress).run()


@dataclass
class _Search:
    request: Request
    tasks: Tasks
    model: BaseChatModel
    folder: SearchFolder
    runner: asyncio.Runner
    on_progress: Callable[[Progress], None]
    progress: Progress = field(default_factory=Progress)
    failure: Exception | None = None
    """First error that ends the search, stored because `gepa` catches exceptions of its callbacks."""

    propose_new_texts = None
    """No proposer of the adapter; `gepa` looks for it."""

    def __post_init__(self) -> None:
        self.graph: Graph = self.request.app.built()
        self.target: Target = target_of(self.request.app, self.graph)
        self.rollouts = Rollouts(
            self.request.app,
            self.graph,
            self.target,
            self.folder,
            self.request.budget,
            seconds=self.request.seconds,
            concurrency=self.request.concurrency,
            on_rollout=self._show,
        )
        self.validation = {task.id for task in self.tasks.validation}

    def run(self) -> Found:
        """Run the search to the end of its budget."""
        if known := self.target.defaults({}):
            chosen(self.request.nodes, known)  # an unknown node is an error before anything is run
        before = self._play(self.tasks.held_out, {}, "before")
        default = chosen(self.request.nodes, self.target.defaults(_systems(self.folder)))
        _check_rewards(before)
        best = self._evolved(default, before)
        changed = best != default
        after = self._play(self.tasks.held_out, best, "after") if changed else before
        held_out = HeldOut.of([one.reward for one in before], [one.reward for one in after])
        kept = {node: text for node, text in self.target.kept.items() if node not in best}
        file = self.folder.folder / self.target.file
        found = Found(default, best, kept, held_out, self.progress, self.refused, self.rollouts.unpriced, file)
        found.write()
        return found

    @property
    def refused(self) -> int:
        """Number of prompts that could not be used."""
        return sum(bool(one.refused) for one in self.folder.reflections)

    def _evolved(self, default: dict[str, str], before: Sequence[Attempt]) -> dict[str, str]:
        """Return the best candidate by validation."""
        seeds = self._play(self.tasks.validation, default, "search")
        _check_constant([*before, *seeds])
        found = gepa.optimize(
            seed_candidate=default,
            trainset=[*self.tasks.feedback],
            valset=[*self.tasks.validation],
            adapter=self,
            custom_candidate_proposer=self.proposed,
            reflection_minibatch_size=self.tasks.minibatch,
            stop_callbacks=self.stops,
            logger=_Log(self.folder.folder / GEPA / "log.txt"),
            run_dir=str(self.folder.gepa),
            track_best_outputs=False,
            seed=self.request.seed,
        )
        if self.failure:
            raise self.failure
        return dict(found.best_candidate)

    def evaluate(
        self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False
    ) -> "EvaluationBatch[Attempt, str]":
        """Return the rewards of a candidate; the adapter's part of `gepa`.

        A candidate is validated once, so that a validation which was interrupted, or is repeated by `gepa` on resuming,
        takes the rollouts that were recorded. A minibatch is always run.
        """
        again = any(task.id not in self.validation for task in batch)
        found = self._play(batch, candidate, "search", again=again)
        return EvaluationBatch(
            outputs=[redacted(one.trace.answer) for one in found],
            scores=[one.reward for one in found],
            trajectories=found if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], batch: "EvaluationBatch[Attempt, str]", nodes: list[str]
    ) -> Mapping[str, Sequence[Record]]:
        """Return what the reflection model reads about each of the nodes, also of those that were not reached."""
        return {node: [record_of(node, one) for one in batch.trajectories or ()] for node in nodes}

    def proposed(
        self, candidate: dict[str, str], dataset: Mapping[str, Sequence[Record]], nodes: list[str]
    ) -> dict[str, str]:
        """Return new prompts of the nodes; none for a node whose prompts could not be used, which are not run."""
        new: dict[str, str] = {}
        for node in nodes:
            asked = reflect(self.model, node, candidate[node], dataset[node], self.target)
            try:
                written = self.runner.run(asked)
            except ModelError as error:
                self.failure = SearchInterrupted(f"the reflection model: {error}", code="no_reflection")
                return {}
            for one in written:
                self.rollouts.reflected(one)
            if not written[-1].refused:
                new[node] = written[-1].text
        return new

    def stops(self, state: Any) -> bool:
        """Return whether another iteration would exceed a budget, or could bring nothing."""
        scores = state.program_full_scores_val_set
        self.progress.candidates, self.progress.default, self.progress.best = len(scores), scores[0], max(scores)
        self._show()
        if not self.failure and self._hopeless():
            self.failure = PromptsError(
                f"every rollout has the reward 0, with {HOPELESS} other prompts too; look at the reward, or give "
                "easier tasks or a stronger model",
                code="constant_reward",
            )
        next_ones = self.tasks.iteration + len(self.tasks.held_out)
        most, spent = self.request.budget.dollars, self.rollouts.dollars
        each = spent / max(1, self.rollouts.number)
        return bool(
            self.failure
            or max(scores) >= 1
            or self.rollouts.number + next_ones > self.request.rollouts
            or (most is not None and spent + each * next_ones > most)
        )

    def _hopeless(self) -> bool:
        tried = sum(not one.refused for one in self.folder.reflections)
        return tried >= HOPELESS and not any(one.reward for one in self.folder.rollouts)

    def _play(self, tasks: Sequence[Task], texts: Texts, phase: Phase, *, again: bool = False) -> list[Attempt]:
        return self.runner.run(self.rollouts.play(tasks, texts, phase, again=again))

    def _show(self) -> None:
        self.progress.rollouts, self.progress.dollars = self.rollouts.number, self.rollouts.dollars
        self.on_progress(self.progress)


def _systems(folder: SearchFolder) -> dict[str, list[str]]:
    """Return the system messages by node that the rollouts before the search had."""
    seen: dict[str, dict[str, None]] = {}
    for one in folder.rollouts:
        for node, texts in one.systems.items():
            seen.setdefault(node, {}).update(dict.fromkeys(texts))
    return {node: [*texts] for node, texts in seen.items()}


def _check_rewards(attempts: Sequence[Attempt]) -> None:
    """Raise PromptsError if no rollout has a reward."""
    if not any(one.status == RolloutStatus.OK for one in attempts):
        raise PromptsError(f"no rollout has a reward: {attempts[0].trace.error}", code="no_reward")


def _check_constant(attempts: Sequence[Attempt]) -> None:
    """Raise PromptsError if all rollouts have the same reward above 0, which no prompt can then raise or be seen to."""
    rewards = {one.reward for one in attempts}
    if len(rewards) == 1 and (reward := rewards.pop()) > 0:
        raise PromptsError(
            f"every rollout of the default prompts has the reward {reward:g}; try more tasks, harder ones, or "
            "another reward",
            code="constant_reward",
        )


@dataclass(frozen=True)
class _Log:
    """Writes what `gepa` logs to a file."""

    path: Path

    def log(self, message: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(redacted(str(message)) + "\n")
