"""The learner of `serve --learn`: of scored answers it makes tasks, and of tasks a version of the planner.

    batches/N/chat.jsonl     the scored answers of the batch, as `agentflow data from-traces` reads them
    batches/N/tasks/         its tasks: questions whose answer a score has confirmed, or a person has given
    batches/N/run/           the training, with Flow-GRPO, from the weights of the version that answers
    batches/N/held-out-H/    the evaluation on the held-out tasks, H their hash; that of the start is in batches/0/
    versions/N/              the weights

Each stage is a command of its own with low priority, and is not repeated. A server that was stopped goes on with
the stage that it was in.
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agentflow.evals import results_store
from agentflow.evals.run_folder import write_whole
from agentflow.graph.context import Context
from agentflow.graph.models.loading import load_model
from agentflow.graph.models.spec import ModelError
from agentflow.rl.live.journal import Feedback, ServedAnswer, Traffic, VersionDecision
from agentflow.rl.live.versions import Versions, loses
from agentflow.rl.run.checkpoints import BEST, FOLDER
from agentflow.rl.settings import setting
from agentflow.rl.traces.convert import TASKS, convert

QUESTIONS = 12
"""Most tasks of a training step."""
TRAINING = ("steps=2", "rollouts=8", "test_tasks=1", "replay_logs=false", "rollout_seconds=600")
"""Settings of a batch's training, before those of the user."""
EVALUATION = ("--concurrency", "8")
"""Options of an evaluation."""
LOOK_SECONDS = 1.0
"""Interval between two looks at the traffic."""
STOP_SECONDS = 30
"""Time for a command to end by itself when the server stops."""


class StageFailed(RuntimeError):
    """A stage's command failed; `str()` is its last line."""


@dataclass(frozen=True)
class LearningSettings:
    """Settings of a learner."""

    folder: Path
    held_out: Path
    """File of the held-out tasks."""
    context: Context
    """Settings of the agent that answers; its planner is that of version 0."""
    start: Path
    """Weights of version 0."""
    batch: int = 24
    """Tasks of a batch."""
    training: Sequence[str] = field(default_factory=tuple)
    """Further settings of the training, `key=value`."""


class Learner:
    """Makes versions of the planner from traffic, and decides on them."""

    def __init__(self, settings: LearningSettings, traffic: Traffic, versions: Versions) -> None:
        """Set the parts."""
        self._settings, self._traffic, self._versions = settings, traffic, versions
        self.doing = ""
        self._now("waiting for scored answers")

    def _now(self, doing: str) -> None:
        """Set what the learner does, in one line, and the time since when."""
        if doing != self.doing:
            self.doing, self.since = doing, datetime.now(UTC)

    async def run(self) -> None:
        """Learn until cancelled."""
        await self._held_out(0)
        while True:
            number = self._versions.next
            try:
                await self._make(number)
            except StageFailed as error:
                self._versions.decide(VersionDecision(version=number, outcome="failed", reason=str(error)))

    async def _make(self, number: int) -> None:
        """Train a version, which answers from then on unless it loses on the held-out tasks."""
        tasks = await self._batch(number)
        self._now(f"training version {number}")
        await self._train(number, tasks)
        found = await self._held_out(number)
        earlier = [await self._held_out(one) for one in (0, *self._versions.promoted)]
        best, right = max(earlier, key=lambda one: sum(one.values())), sum(found.values())
        known = {"version": number, "tasks": tasks, "held_out": right / len(found)}
        evidence = f"{right} of {len(found)} held-out tasks right, {sum(best.values())} by the best version so far"
        if loses(found, best):
            self._versions.decide(VersionDecision(**known, outcome="rejected", reason=evidence))
            return
        try:
            await asyncio.to_thread(self.load, number)
        except ModelError as error:
            raise StageFailed(str(error)) from error
        self._versions.decide(VersionDecision(**known, outcome="promoted", reason=evidence))

    async def _batch(self, number: int) -> int:
        """Wait for enough tasks, and return their number."""
        folder = self.batch_folder(number)
        source = folder / "chat.jsonl"
        if not source.exists():
            scored = await self._enough()
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(source, "".join(json.dumps(_row(*one)) + "\n" for one in scored).encode())
            self._traffic.use(answer.id for answer, _ in scored)
        if not (folder / "tasks" / TASKS).exists():
            await asyncio.to_thread(convert, source, folder / "tasks", format="chat")
        return len((folder / "tasks" / TASKS).read_text(encoding="ascii").splitlines())

    async def _enough(self) -> list[tuple[ServedAnswer, Feedback]]:
        """Wait until the scored answers have confirmed enough questions, and return them."""
        self._now("waiting for scored answers")
        while True:
            scored = self._traffic.unused
            confirmed = {answer.question for answer, feedback in scored if feedback.score == 1 or feedback.answer}
            if len(confirmed) >= self._settings.batch:
                return scored
            await asyncio.sleep(LOOK_SECONDS)

    async def _train(self, number: int, tasks: int) -> None:
        """Train the version from the one that answers, and export it."""
        if self.weights(number).exists():
            return
        settings, context, folder = self._settings, self._settings.context, self.batch_folder(number)
        texts = {
            "app": "agentflow.rl.apps.benchmark:benchmark",
            "options.name": folder / "tasks" / TASKS,
            "options.test": settings.held_out,
            "options.frozen": context.model,
            "options.corpus": context.corpus_name,
            "options.search_engine": context.search_engine,
            "start": self.weights(self._versions.current),
            "out": folder / "run",
        }
        words = [setting(name, str(value)) for name, value in texts.items()]
        words += [f"options.tools={json.dumps(list(context.tools))}", f"options.max_turns={context.max_turns}"]
        words += [f"seed={number}", f"train_tasks={tasks}", f"questions={min(tasks, QUESTIONS)}"]
        words += [*TRAINING, "options.max_tokens=128", *settings.training]
        await self._command(number, "train", "--preset", "atlas-cpu", *words)
        new = self.weights(number).with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        await self._command(number, "export", str(folder / "run"), str(new))
        new.rename(self.weights(number))
        for saved in (folder / "run" / FOLDER, folder / "run" / BEST):  # larger, and needed by nobody now
            if saved.exists():
                shutil.rmtree(saved)

    async def _held_out(self, number: int) -> dict[str, bool]:
        """Return whether a version answers each held-out task, in one greedy try; by the task's id."""
        tasks = self._settings.held_out
        folder = self.batch_folder(number) / f"held-out-{hashlib.sha256(tasks.read_bytes()).hexdigest()[:8]}"
        whole = folder.with_suffix(".json")
        if not whole.exists():
            self._now(f"evaluating version {number}")
            folder.parent.mkdir(parents=True, exist_ok=True)
            given = folder.parent / "context.json"
            given.write_text(self.context(number).model_dump_json(), encoding="utf-8")
            await self._command(number, "eval", str(tasks), "--context", str(given), *EVALUATION, "--out", str(folder))
            records = results_store.read(folder)[1]
            whole.write_text(json.dumps({record.task.id: record.correct for record in records}), encoding="ascii")
        return dict(json.loads(whole.read_bytes()))

    def batch_folder(self, number: int) -> Path:
        """Return the folder of a batch."""
        return self._settings.folder / "batches" / str(number)

    def weights(self, number: int) -> Path:
        """Return the folder of a version's weights."""
        return self._settings.folder / "versions" / str(number) if number else self._settings.start

    def load(self, number: int) -> None:
        """Load a version's planner, so that no request waits for it. Raises ModelError."""
        context = self.context(number)
        load_model(context.model_name_of("planner"), context.sampling_of("planner"))

    def context(self, number: int) -> Context:
        """Return the settings of the agent with a version's planner."""
        context = self._settings.context
        return context.model_copy(update={"models": {**context.models, "planner": f"embedded:{self.weights(number)}"}})

    async def _command(self, number: int, *words: str) -> None:
        """Run a command of ours with low priority; its output goes to the batch's log. Raises StageFailed."""
        log = self.batch_folder(number) / "log.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                "nice", "-n", "19", sys.executable, "-m", "agentflow", *words,
                stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        _lower_session(process.pid)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        if code:
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            raise StageFailed(f"{words[0]} ended with exit status {code}: {last.rpartition('error: ')[2]}; see {log}")


def _lower_session(pid: int) -> None:
    """Lower the priority of a session: Linux's scheduler groups by it, and niceness counts inside a group alone."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("19", encoding="ascii")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Stop a command, and after some time its whole session."""
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _row(answer: ServedAnswer, feedback: Feedback) -> dict[str, object]:
    """Return a scored answer as a row of chat, as `agentflow data from-traces` reads it."""
    messages = [{"role": "user", "content": answer.question}, {"role": "assistant", "content": answer.answer}]
    return {"messages": messages, "id": answer.id, "reward": feedback.score, "edit": feedback.answer}


def used_ids(folder: Path) -> set[str]:
    """Return the ids of the answers in the batches of a folder."""
    files = folder.glob("batches/*/chat.jsonl")
    return {str(json.loads(line)["id"]) for file in files for line in file.read_text(encoding="utf-8").splitlines()}
