"""Records in the run folder of a training: metrics.jsonl, rollouts/, replay/ and tokens/.

    metrics.jsonl            one line per step, and one per validation (split "test")
    rollouts/000012-train.jsonl   every rollout of step 12; -test: of the validation after it
    replay/000012-train.jsonl     the external responses of these rollouts (`agentflow.rl.rollout.replay_log`)
    tokens/000012.jsonl.gz        the tokens of a few groups of step 12 (`agentflow.rl.rollout.tokens`)
    pending.json             the line of a step whose checkpoint is being saved

A killed run resumes from its last checkpoint. Records of later steps are deleted first, so that no step and no rollout
is counted twice. A step's line is written after its weight sync and its validation; if the run was killed between its
checkpoint and its line, the run that resumes writes the line.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import mean
from typing import Any

from agentflow.evals.run_folder import SETTINGS, write_whole
from agentflow.evals.statistics import paired_interval, pass_at
from agentflow.graph.run.trace import to_line
from agentflow.rl.apps.trainable import Split
from agentflow.rl.rollout.rollout import RolloutStatus, RolloutTrace, rewarded
from agentflow.rl.rollout.tokens import TokenStep, packed
from agentflow.rl.run.alarm import MAX_DRIFT, alarm
from agentflow.tools.coded_error import Cause
from agentflow.tools.json_codec import from_json, object_from_json, readable_lines

Line = dict[str, Any]

TOKENS = "tokens"

TIMES = {
    "gen": "rollouts",
    "old_log_prob": "old",
    "ref": "reference",
    "update_actor": "update",
    "token_inspector": "token_inspector",
    "step": "step",
}
"""Names of a step's timings in verl, and in metrics.jsonl; in seconds."""

MAX_LOST = 0.05
"""Share of lost tries beyond which a validation decides nothing."""


@dataclass(frozen=True)
class HeldOut:
    """Mean rewards of the same tasks before and after."""

    tasks: int
    before: float
    after: float
    low: float
    high: float
    """95 % interval of the mean difference, task by task."""

    @classmethod
    def of(cls, before: Sequence[float], after: Sequence[float]) -> "HeldOut":
        """Compare the rewards of the same tasks, each from 0 to 1."""
        low, high = paired_interval([second - first for first, second in zip(before, after, strict=True)])
        number = len(before)
        return cls(number, fsum(before) / number, fsum(after) / number, low, high)


class TrainingLog:
    """Reader and writer of the records in the run folder `out`."""

    def __init__(self, out: str | Path, max_drift: float = MAX_DRIFT) -> None:
        """Name the folder; `max_drift` is the alarm's, for writers."""
        self.out, self._max_drift = Path(out), max_drift
        self.rollouts, self.replay_logs = self.out / "rollouts", self.out / "replay"
        self._metrics = self.out / "metrics.jsonl"
        self._tokens = self.out / TOKENS
        self._pending = self.out / "pending.json"

    def lines(self) -> list[Line]:
        """Return the lines of metrics.jsonl, without a truncated last line."""
        if not self._metrics.exists():
            return []
        whole = [line for line in self._metrics.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        return [from_json(line) for line in whole]

    def rewind(self, step: int) -> None:
        """Delete the records of steps after `step`."""
        kept = [line for line in self.lines() if line["step"] <= step]
        for folder in (self.rollouts, self.replay_logs):
            folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._metrics, "".join(json.dumps(line) + "\n" for line in kept).encode())
        own = (self.rollouts, "*-*.jsonl"), (self.replay_logs, "*-*.jsonl"), (self._tokens, "*.jsonl.gz")
        for path in (path for folder, names in own for path in folder.glob(names)):
            if int(path.name.partition("-")[0].partition(".")[0]) > step:
                path.unlink()
        if (pending := self._pending_line()) and pending["step"] > step:
            self._pending.unlink()

    def begin(self, step: int, split: Split) -> None:
        """Prepare to record rollouts of `step`; deletes those of an earlier attempt."""
        for path in (self.path_of(step, split), self.replay_log_of(step, split)):
            path.unlink(missing_ok=True)

    def step(
        self, step: int, metrics: Mapping[str, Any], seconds: Mapping[str, float], restarted: Sequence[str] = ()
    ) -> Line:
        """Add a step's line to metrics.jsonl, with the alarm that it raises, and return it.

        `metrics` and `seconds` have verl's names as keys; `restarted` names workers that died.
        """
        return self._add_step(_line(step, metrics, seconds) | _named(restarted))

    def set_pending(self, step: int, metrics: Mapping[str, Any], seconds: Mapping[str, float]) -> None:
        """Store a step's line in pending.json, before the step's checkpoint is saved; takes what `step` takes."""
        write_whole(self._pending, _json(_line(step, metrics, seconds)))

    def add_pending(self) -> Line | None:
        """Add the pending line to metrics.jsonl and return it; None if there is none, or it has been added."""
        pending = self._pending_line()
        added = {line["step"] for line in self.lines() if line["split"] == "train"}
        return None if pending is None or pending["step"] in added else self._add_step(pending)

    def _pending_line(self) -> Line | None:
        return json.loads(self._pending.read_bytes()) if self._pending.exists() else None

    def _add_step(self, line: Line) -> Line:
        if raised := alarm([*self.lines(), line], self._max_drift):
            line["alarm"] = raised._asdict()
        self._add(line)
        self._pending.unlink(missing_ok=True)
        return line

    def validation(self, step: int, restarted: Sequence[str] = ()) -> None:
        """Add the line of the validation after `step`, summarised from its rollouts."""
        found = summary(self.records(step, "test"), self._count_as_zero())
        self._add({"step": step, "split": "test", **found, **_named(restarted)})

    def _count_as_zero(self) -> Collection[Cause]:
        """Return the causes of failures that a validation counts as wrong: the policy's, and those of the settings."""
        path = self.out / SETTINGS
        settings = object_from_json(path.read_bytes() if path.is_file() else b"") or {}
        return {"policy", *settings.get("flow", {}).get("count_as_zero", ())}

    def credit(self, step: int, advantages: Mapping[str, list[float]]) -> None:
        """Write the advantages of a step's calls into its recorded rollouts; all of them must have ended."""
        credited = [record.credited(advantages.get(record.id)) for record in self.records(step, "train")]
        write_whole(self.path_of(step, "train"), "".join(to_line(record) + "\n" for record in credited).encode())

    def records(self, step: int, split: Split) -> list[RolloutTrace]:
        """Return the rollouts of a step; unreadable lines, such as a truncated last one, are skipped.

        A rollout stands there twice if its process was killed between its record and the end of its replay log.
        """
        records = readable_lines(self.path_of(step, split), RolloutTrace)
        return list({record.id: record for record in records}.values())

    def accuracies(self) -> dict[int, float]:
        """Return the accuracy of each validated step that lost few tries, of those with as many rollouts as the last:
        on other tasks, it is no measure of which step is best.
        """
        found = [line for line in self.lines() if line["split"] == "test" and "lost" not in line]
        return {line["step"]: line["accuracy"] for line in found if line["rollouts"] == found[-1]["rollouts"]}

    def held_out(self, last: int | None = None) -> HeldOut | None:
        """Compare the validation before training with that after step `last`, by default the last one; None if there
        are not both, or one is `lost`.
        """
        tests = {line["step"]: line for line in self.lines() if line["split"] == "test"}
        last = max(tests, default=0) if last is None else last
        if not last or any("lost" in tests.get(step, ["lost"]) for step in (0, last)):
            return None
        before, after = (self.tries(step) for step in (0, last))
        pairs = [(mean(tries), mean(after[task])) for task, tries in before.items() if task in after]
        return HeldOut.of(*zip(*pairs, strict=True)) if pairs else None

    def lost(self) -> str:
        """Return why the first or the last validation decides nothing; "" if both are sound."""
        tests = [line for line in self.lines() if line["split"] == "test"]
        return next((f"step {line['step']}: {line['lost']}" for line in (tests[:1] + tests[-1:]) if "lost" in line), "")

    def tries(self, step: int) -> dict[str, list[float]]:
        """Return the rewards of each task's decided tries in the validation after `step`."""
        zero = self._count_as_zero()
        return rewards_by_task(record for record in self.records(step, "test") if rewarded(record.outcome, zero))

    def latest_rollouts(self) -> tuple[int, Split, int] | None:
        """Return the step and the split whose rollouts were recorded last, and how many of them have ended."""
        paths = [(path.stat().st_mtime, path) for path in self.rollouts.glob("*-*.jsonl")]
        if not paths:
            return None
        path = max(paths)[1]
        step, _, split = path.stem.partition("-")
        return int(step), "test" if split == "test" else "train", path.read_bytes().count(b"\n")

    def tokens(self, found: TokenStep) -> None:
        """Write the inspected tokens of a step."""
        self._tokens.mkdir(exist_ok=True)
        write_whole(self._tokens / token_file(found.step), packed(found))

    def path_of(self, step: int, split: Split) -> Path:
        """Return the path of a step's rollouts."""
        return self.rollouts / f"{step:06d}-{split}.jsonl"

    def replay_log_of(self, step: int, split: Split) -> Path:
        """Return the path of a step's replay logs."""
        return self.replay_logs / f"{step:06d}-{split}.jsonl"

    def _add(self, line: Line) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        with self._metrics.open("ab") as file:
            file.write(_json(line))


def doing(step: int, split: Split, ended: int, number: int) -> str:
    """Say what a training does, of whose `number` rollouts of a step, or of the validation after it, some ended."""
    when = f"after step {step}" if step else "before training"
    if split == "train" and ended >= number:
        return f"step {step}: updating the weights"
    what = f"validating {when}" if split == "test" else f"step {step}: rollouts"
    return f"{what}, {ended:,} of {max(ended, number):,}"


def token_file(step: int) -> str:
    """Return the name of a step's file in tokens/."""
    return f"{step:06d}.jsonl.gz"


def summary(records: Sequence[RolloutTrace], count_as_zero: Collection[Cause]) -> Line:
    """Summarise the rollouts of a validation.

    `accuracy`, `families` and `pass_at` are of the tries that are decided; a failure by one of these causes is wrong.
    `pass_at` is pass@k by k, of the tasks with several rollouts, all decided; of fractional rewards, the best of k.
    `left_out` is the share of the others, and `lost` says what they mean where there are more than MAX_LOST.
    """
    number = max(len(records), 1)
    turns = [turn for record in records for turn in record.turns]
    errors = sum(turn.result.error is not None for turn in turns)
    decided = [record for record in records if rewarded(record.outcome, count_as_zero)]
    families: dict[str, list[float]] = defaultdict(list)
    for record in decided:
        families[record.task.family].append(record.reward)
    asked, tries = Counter(record.task.id for record in records), rewards_by_task(decided)
    whole = {task: rewards for task, rewards in tries.items() if len(rewards) == asked[task]}
    left_out = Counter(record.outcome for record in records if not rewarded(record.outcome, count_as_zero))
    return {
        "rollouts": len(records),
        **({"accuracy": mean(record.reward for record in decided)} if decided else {}),
        "left_out": left_out.total() / number,
        **({"lost": lost_tries(left_out, number)} if left_out.total() > MAX_LOST * number else {}),
        "pass_at": {str(k): round(share, 6) for k, share in pass_at(whole).items()},
        "turns": len(turns) / number,
        "tool_error_rate": errors / len(turns) if turns else 0.0,
        "families": {name: sum(rewards) / len(rewards) for name, rewards in sorted(families.items())},
        "tools": dict(Counter(turn.tool for turn in turns if turn.result.error is None).most_common()),
        "errors": dict(Counter(str(turn.result.error) for turn in turns if turn.result.error).most_common()),
        **{f"status/{status}": count for status, count in Counter(record.outcome for record in records).items()},
    }


LOST = {
    RolloutStatus.TIMED_OUT: "ran out of time: the machine is busy, or rollout_seconds is too short",
    RolloutStatus.ENDPOINT_FAILED: "had no answer of a model, a judge or the sandbox",
    RolloutStatus.UNDECIDED: "had no decision by the reward",
}
"""What became of lost tries, by status."""


def lost_tries(left_out: Mapping[RolloutStatus, int], number: int) -> str:
    """Return what became of most of the tries that a validation of `number` tries lost."""
    status = max(left_out, key=lambda one: left_out[one])
    total, most = sum(left_out.values()), left_out[status]
    others = f" ({total} were lost in all)" if total > most else ""
    reason = LOST.get(status, f"ended as {status}")
    return f"{most} of {number} tries {reason}{others}; so this validation decides nothing"


def rewards_by_task(records: Iterable[RolloutTrace]) -> dict[str, list[float]]:
    """Return the rewards of each task's rollouts."""
    found: dict[str, list[float]] = defaultdict(list)
    for record in records:
        found[record.task.id].append(record.reward)
    return dict(found)


def _line(step: int, metrics: Mapping[str, Any], seconds: Mapping[str, float]) -> Line:
    """Return the line of a step; `metrics` and `seconds` have verl's names as keys."""
    own = {name: value for name, value in metrics.items() if "/" not in name or name.startswith("status/")}
    named = {
        "nll": "actor/nll",
        "kl": "actor/kl",
        "clip_fraction": "actor/clip_fraction",
        "gradient": "actor/grad_norm",
    }
    taken = {f"seconds/{ours}": round(seconds[name], 3) for name, ours in TIMES.items() if name in seconds}
    speed = {"tokens_per_second": own.get("sampled_tokens", 0) / seconds["step"]}
    found = {ours: metrics[name] for ours, name in named.items() if name in metrics}
    nodes = {"nodes": _nodes(metrics)} if any(name.startswith("node/") for name in metrics) else {}
    return {"step": step, "split": "train", **own, **found, **speed, **taken, **nodes}


def _nodes(metrics: Mapping[str, Any]) -> dict[str, Line]:
    """Return the metrics `node/PATH/METRIC` by path of the node."""
    found: dict[str, Line] = defaultdict(dict)
    for name, value in metrics.items():
        if name.startswith("node/"):
            path, metric = name.removeprefix("node/").rsplit("/", 1)
            found[path][metric] = _plain(value)
    return dict(found)


def _named(restarted: Sequence[str]) -> Line:
    return {"restarted": list(restarted)} if restarted else {}


def _json(line: Line) -> bytes:
    return (json.dumps({name: _plain(value) for name, value in line.items()}) + "\n").encode()


def _plain(value: Any) -> Any:
    """Convert a number of any library to a JSON number, rounded to six decimals."""
    return value if isinstance(value, dict | list | str | int) else round(float(value), 6)
