"""Replay of a training step from its replay logs, without a model, a tool, a network or verl.

The replayed batch is compared with the recorded one. Equal digests show that the current code, with its prompts,
parsers, rewards and credit assignment, builds the same batch from the same responses; otherwise the rollouts that
differ are named. A validation is not trained on, so only statuses and rewards are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentflow.evals.run_folder import RunFolderError, read_settings
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, Split
from agentflow.rl.rollout.batch import Facts, assign_credit, batch_digest, counts, facts_of, parts_of
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.replay_log import Answer, ReplayLog, ReplayLogs
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, run_again
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.settings import TrainingSettings
from agentflow.tools.coded_error import CodedError


class ReplayError(CodedError, ValueError):
    """A step cannot be replayed; `str()` is one line that explains why."""


@dataclass(frozen=True)
class Replayed:
    """Result of a replay."""

    rollouts: int
    differences: list[str]
    """Name and difference of each rollout that does not match its record."""
    batch: str
    """Digest of the replayed batch; "" for a validation."""
    recorded: str
    """Digest of the batch that was trained on; "" if the run recorded none."""

    @property
    def same(self) -> bool:
        """Return whether all rollouts and the batch match their records."""
        return not self.differences and self.batch == self.recorded


class Replay:
    """Replay of one step of the run in the folder `out`."""

    def __init__(self, out: Path, step: int | None, split: Split) -> None:
        """`step=None` selects the last recorded step. Raises ReplayError."""
        self.log = TrainingLog(out)
        steps = [int(path.name.partition("-")[0]) for path in self.log.replay_logs.glob(f"*-{split}.jsonl")]
        if not steps:
            raise ReplayError(
                f"{out} has no replay logs of the {split} split; runs with replay_logs=true keep them", code="no_logs"
            )
        self.step, self.split = max(steps) if step is None else step, split
        if self.step not in steps:
            raise ReplayError(
                f"{out} has no replay logs of step {step}; it has {min(steps)} to {max(steps)}", code="unknown_step"
            )
        try:
            self.settings = read_settings(out, TrainingSettings)
            app = load_app(self.settings.app, **self.settings.options)
            self._app, self._graph = app, app.built()
            self._tasks = {task.id: task for task in app.tasks(split, getattr(self.settings, f"{split}_tasks"))}
        except (RunFolderError, AppError) as error:
            raise ReplayError(str(error)) from error
        self._replay_logs = ReplayLogs(self.log.replay_log_of(self.step, split), live=False)

    @property
    def rollouts(self) -> Sequence[str]:
        """Names of the rollouts that ended."""
        return self._replay_logs.rollouts

    async def run(self, on_rollout: Callable[[], None] = lambda: None) -> Replayed:
        """Replay all rollouts; `on_rollout` is called after each. Raises ReplayError."""
        rows: dict[str, Facts] = {}
        differences, settings, flow = [], self.settings, self.settings.flow
        for name in self.rollouts:
            task_id, _, session = name.rpartition("/")
            task = self._tasks.get(task_id)
            if task is None:
                raise ReplayError(f"the app has no task {task_id} any more", code="unknown_task")
            replay_log = self._replay_logs.of(name)
            rollout = await run_again(self._app, self._graph, task, replay_log, seconds=settings.rollout_seconds)
            if different := _difference(replay_log, rollout):
                differences.append(f"{name}: {different}")
            limit = settings.response_tokens if flow.pack_turns else 0
            found = [(row, part, of) for part, of in parts_of(rollout, name) for row in pack(part.calls, limit=limit)]
            for position, (row, part, of) in enumerate(found):
                counted = counts(part, mask_cut_off=flow.mask_cut_off, count_as_zero=flow.count_as_zero)
                rows[f"{task_id}_{session}_{position}"] = facts_of(row, part, of, counted=counted)
            on_rollout()
        credit = assign_credit(rows, flow.algorithm)
        batch = batch_digest(rows, credit) if self.split == "train" else ""
        lines = (line for line in self.log.lines() if (line["step"], line["split"]) == (self.step, self.split))
        recorded = str(next((line.get("batch", "") for line in lines), ""))
        return Replayed(len(self.rollouts), differences, batch, recorded)


def _difference(replay_log: ReplayLog, rollout: Rollout) -> str:
    end: Answer = replay_log.end or {}
    if rollout.status != end.get("status") or (rollout.status == RolloutStatus.OK and replay_log.missing):
        return replay_log.missing or f"ended {rollout.status}, {end.get('status')} before ({rollout.trace.error})"
    if rollout.reward != end.get("reward"):
        return f"reward {rollout.reward:g}, {end.get('reward'):g} before"
    return ""
