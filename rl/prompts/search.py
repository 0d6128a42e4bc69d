"""The search: `gepa` over rollouts of an app, within a budget of rollouts, resumable at any time.

Tasks are of three kinds. The held-out ones are run with the default prompts before the search and with the best ones
after it. The others are halved: the reflection model reads rollouts of one half, and the other half decides which
candidate is best. The run folder has the settings, a line for every rollout, the state of `gepa`, and the result.
"""

import asyncio
import json
import pickletools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal
from uuid import uuid4

import gepa
from gepa.core.adapter import EvaluationBatch
from gepa.strategies.instruction_proposal import InstructionProposalSignature
from langchain_core.messages import HumanMessage

from agentflow.evals.results_store import ResultsError, drop_torn_line, lines_of, lock
from agentflow.evals.run_folder import SETTINGS, RunFolderError, RunSettings, read_settings, write_settings
from agentflow.graph.models.loading import complete, load_model
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task, identity
from agentflow.graph.run.trace import to_line
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.policy.policy import no_policy
from agentflow.rl.prompts import PromptsError, SearchInterrupted
from agentflow.rl.prompts.feedback import CallLog, PromptRollout, record_of
from agentflow.rl.prompts.targets import Target
from agentflow.rl.rollout.rollout import RolloutStatus, run
from agentflow.rl.run.training_log import HeldOut
from agentflow.tools.redaction import redacted

ROLLOUTS, GEPA, STATE = "rollouts.jsonl", "gepa", "gepa_state.bin"

NAMING = {"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}
"""Codes of a pickle that name a class or function, which it can call."""


class PromptSettings(RunSettings):
    """The settings.json of a search: a hash of all that its result depends on but the budget, which may grow."""

    kind: Literal["prompts"] = "prompts"
    search: str


@dataclass
class Search:
    """A search as it is asked for, and under way: the adapter of an app for `gepa`.

    Raises PromptsError, AppError or ModelError if what is asked for is wrong, and SearchInterrupted.
    """

    app: Trainable
    nodes: Sequence[str]  # patterns of the nodes whose prompts evolve; empty for all
    reflection: str  # model that writes prompts
    out: Path
    most: int = 300  # rollouts, the held-out ones included
    limit: int = 40  # tasks for feedback and validation
    held_out: int = 20
    seconds: float = 300.0
    concurrency: int = 8
    seed: int = 0
    on_progress: Callable[[str], None] = lambda line: None

    propose_new_texts = None  # which `gepa` looks for, and asks the reflection model itself

    def __post_init__(self) -> None:
        learnt, self.tested = self.app.tasks("train", self.limit), self.app.tasks("test", self.held_out)
        self.feedback, self.validation = learnt[::2], learnt[1::2]
        self.minibatch = min(3, len(self.feedback))  # rollouts that one reflection reads
        # The rollouts that are left for an iteration, and for the held-out tasks after it.
        self.next_ones = 2 * self.minibatch + len(self.validation) + len(self.tested)
        least = len(self.tested) + len(self.validation) + self.next_ones
        if not (self.validation and self.tested) or self.most < least:
            raise PromptsError(
                f"{len(learnt)} tasks to learn from and {len(self.tested)} held out (--tasks, --test): at least 2 and "
                f"1 are needed, and {least} --rollouts for one candidate, or a smaller --limit or --held-out",
                code="too_few",
            )
        self.model = load_model(self.reflection)
        self.graph = self.app.built()
        self.target = Target(self.app, self.graph)
        self.file = self.out / self.target.file
        self.failure: ModelError | None = None  # of the last reflection, without which `gepa` goes on

    def run(self) -> tuple[dict[str, tuple[str, str]], HeldOut]:
        """Search to the end of the budget, or continue the search in `out`, and write the best prompts to `file`.

        Return the prompts that changed, by node after the one before, and the rewards of the held-out tasks.
        """
        if self.target.defaults:
            self.target.chosen(self.nodes)  # an unknown node is an error before anything is run
        known = self.target.context.model_dump_json() if self.target.context else ""
        tasks = [f"{task.id} {task.question}" for task in (*self.feedback, *self.validation, *self.tested)]
        key = identity(self.app.name, *self.nodes, self.reflection, f"{self.seconds} {self.seed}", known, *tasks)
        with asyncio.Runner() as self.runner, _opened(self.out, key) as (self.lines, self.rollouts):
            before = self._play(self.tested, {})
            if not any(one.outcome == RolloutStatus.OK for one in before):
                raise PromptsError(f"no rollout has a reward: {before[0].error or 'it is None'}", code="no_reward")
            self.target.learn(before)
            default = self.target.chosen(self.nodes)
            best = self._evolved(default)
            after = self._play(self.tested, best) if best != default else before
        changed = {node: (default[node], text) for node, text in best.items() if text != default[node]}
        prompts = {"prompts": {**self.target.kept, **{node: text for node, (_, text) in changed.items()}}}
        self.file.write_text(json.dumps(prompts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return changed, HeldOut.of([one.reward for one in before], [one.reward for one in after])

    def _evolved(self, default: dict[str, str]) -> dict[str, str]:
        """Return the best candidate by validation."""
        found = gepa.optimize(
            seed_candidate=default,
            trainset=[*self.feedback],
            valset=[*self.validation],
            adapter=self,
            reflection_lm=self._reflect,
            reflection_prompt_template={node: self._template(node) for node in default},
            reflection_minibatch_size=self.minibatch,
            stop_callbacks=self._stops,
            logger=self,
            run_dir=str(self.out / GEPA),
            track_best_outputs=False,
            seed=self.seed,
        )
        if self.failure:
            raise SearchInterrupted(f"the reflection model: {self.failure}", code="no_reflection")
        return dict(found.best_candidate)

    def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Return the rewards of a candidate. One whose prompts are not valid has the rewards 0, and is not run.

        A minibatch, whose calls are read, is always run; a validation, which `gepa` repeats on resuming, once.
        """
        try:
            for node, text in candidate.items():
                self.target.check(node, text)
        except ValueError as error:
            self.log(f"not run: {error}")
            return EvaluationBatch([""] * len(batch), [0.0] * len(batch), [], num_metric_calls=0)
        found = self._play(batch, candidate, again=capture_traces)
        return EvaluationBatch([redacted(one.answer) for one in found], [one.reward for one in found], found)

    def make_reflective_dataset(self, candidate: Any, batch: Any, nodes: list[str]) -> dict[str, list[Any]]:
        """Return what the reflection model reads about each of the nodes, also of those that were not reached."""
        return {node: [record_of(node, one) for one in batch.trajectories] for node in nodes}

    def log(self, message: str) -> None:
        """Write what `gepa` logs."""
        with (self.out / GEPA / "log.txt").open("a", encoding="utf-8") as file:
            file.write(redacted(str(message)) + "\n")

    def _template(self, node: str) -> str:
        """Return what the reflection model is asked, in the words of `gepa`."""
        about = f"The assistant is '{node}', one of several that work on a task together; a program reads its replies, "
        about += "so keep every rule on their form, and every placeholder letter for letter: "
        about += self.target.placeholders(node)
        return f"{InstructionProposalSignature.default_prompt_template}\n\n{about}"

    def _reflect(self, prompt: str | list[dict[str, Any]]) -> str:
        self.failure = None
        try:
            return self.runner.run(complete(self.model, [HumanMessage(str(prompt))]))
        except ModelError as error:
            self.failure = error
            raise

    def _stops(self, state: Any) -> bool:
        """Return whether another iteration would exceed the budget, or could bring nothing."""
        scores, number = state.program_full_scores_val_set, len(self.rollouts)
        told = f"best {max(scores):.3f}, default {scores[0]:.3f}, candidates validated: {len(scores)}"
        self.on_progress(f"{number}/{self.most} rollouts, {told}")
        return bool(self.failure or max(scores) >= 1 or number + self.next_ones > self.most)

    def _play(self, tasks: Sequence[Task], texts: Mapping[str, str], *, again: bool = False) -> list[PromptRollout]:
        """Return the rollouts of `tasks`. One that was recorded is not run, unless `again`.

        A model that does not answer says nothing about a prompt: it ends the search. Other failures have the reward 0.
        """
        candidate = identity(*(part for pair in sorted(texts.items()) for part in pair))
        known = {} if again else {one.task.id: one for one in self.rollouts if one.candidate == candidate}
        free = asyncio.Semaphore(self.concurrency)

        async def played(task: Task) -> PromptRollout:
            async with free:
                return known.get(task.id) or await self._rollout(task, texts, candidate)

        async def all_played() -> list[PromptRollout]:
            return await asyncio.gather(*map(played, tasks))

        return self.runner.run(all_played())

    async def _rollout(self, task: Task, texts: Mapping[str, str], candidate: str) -> PromptRollout:
        log, id, seconds, (app, systems) = CallLog(), uuid4().hex, self.seconds, self.target.changed(texts)
        ran = await run(app, self.graph, task, no_policy, id=id, seconds=seconds, sinks=[log], systems=systems)
        error = redacted(ran.trace.error)
        if ran.status == RolloutStatus.BAD_REWARD:
            raise PromptsError(error, code="bad_reward")
        if ran.status == RolloutStatus.ENDPOINT_FAILED:
            raise SearchInterrupted(error, code="no_answer")
        seen = sorted({(call["Assistant"], call["System"]) for call in log.calls})
        found = {**ran.trace.own_fields, "error": error, "outcome": ran.status, "reward": ran.reward, "systems": seen}
        one = PromptRollout(**found, candidate=candidate, calls=log.calls)
        self.rollouts.append(one)
        self.lines.write(to_line(one).encode() + b"\n")
        self.lines.flush()
        return one


@contextmanager
def _opened(folder: Path, key: str) -> Iterator[tuple[IO[bytes], list[PromptRollout]]]:
    """Lock the folder of this search, and yield its file of rollouts and those that it holds. Raises PromptsError."""
    try:
        (folder / GEPA).mkdir(parents=True, exist_ok=True)
        file = (folder / ROLLOUTS).open("ab+")
    except OSError as error:
        raise PromptsError(f"cannot write to {folder} ({error.strerror}); choose another --out", code="out") from error
    with file:
        try:
            lock(file, folder)
            if (folder / SETTINGS).exists() and read_settings(folder, PromptSettings).search != key:
                raise PromptsError(f"{folder} holds another search; choose another --out", code="other_search")
            write_settings(folder, PromptSettings(search=key))
            drop_torn_line(file)
            _check_state(folder / GEPA / STATE)
            rollouts = [*lines_of(folder / ROLLOUTS, PromptRollout, "a rollout")]
        except (ResultsError, RunFolderError) as error:
            raise PromptsError(str(error), code=error.code) from error
        yield file, rollouts


def _check_state(path: Path) -> None:
    """Raise PromptsError unless the state of `gepa` is plain data: it is a pickle, which can run any program."""
    try:
        codes = {code.name for code, _, _ in pickletools.genops(path.read_bytes())} if path.exists() else set()
    except ValueError:
        codes = NAMING
    if not codes.isdisjoint(NAMING):
        raise PromptsError(f"{path} is not the state of a search; choose another --out", code="unsafe_state")
