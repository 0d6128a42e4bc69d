"""Sources of traces: an evaluation, a training, a trace file. Each is read incrementally."""

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from agentflow.evals.intervals import accuracy_interval
from agentflow.evals.record import EvaluationSettings
from agentflow.evals.results_store import TRACES
from agentflow.evals.run_folder import SETTINGS
from agentflow.graph.context import Context
from agentflow.rl.apps.trainable import Split
from agentflow.rl.rollout.rollout import RolloutStatus, rewarded
from agentflow.rl.rollout.tokens import TokenStep, unpacked
from agentflow.rl.run.training_log import TOKENS, doing, token_file
from agentflow.tools.coded_error import Cause
from agentflow.tools.json_codec import model_from_json, object_from_json
from agentflow.view.calls import CallsFile
from agentflow.view.lines import Tail, read_file
from agentflow.view.rows import Reader, Row, of_record, of_rollout, of_trace

METRICS, ROLLOUTS = "metrics.jsonl", "rollouts"
LIVE_SECONDS = 120
"""Most seconds since the last write for an unfinished source to count as live."""

_ROLLOUTS = re.compile(r"(\d{1,9})-(train|test)\.jsonl")


@dataclass
class Rows:
    """Rows of one file."""

    tail: Tail
    reader: Reader
    rows: list[Row] = field(default_factory=list)
    broken: int = 0
    """Number of complete lines that are not a trace."""
    _at: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines. Return whether anything changed, and whether more can be read at once."""
        news = self.tail.look()
        if news.again:
            self.rows, self.broken, self._at = [], 0, {}
        for place, line in news.lines or ():
            try:
                self._keep(self.reader(line, place))
            except ValidationError:
                self.broken += 1
        return bool(news), news.more

    def _keep(self, row: Row) -> None:
        if row.key and row.key in self._at:
            self.rows[self._at[row.key]] = row
            return
        if row.key:
            self._at[row.key] = len(self.rows)
        self.rows.append(row)


class Source:
    """A source of traces. Its methods are called by one thread at a time."""

    kind = ""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.id = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        """Identity in addresses, which therefore contain no path."""
        self.changed = 0.0
        """Time of the last write."""
        self.broken = 0
        """Number of invalid lines."""

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines. Return as `Rows.refresh`."""
        raise NotImplementedError

    def rows(self) -> Sequence[tuple[str, Row]]:
        """Return all rows with their names in addresses, in the order in which they were written."""
        raise NotImplementedError

    @property
    def unfinished(self) -> bool:
        """Return whether more traces are expected."""
        return False

    @property
    def live(self) -> bool:
        """Return whether the source is unfinished and was written recently."""
        return self.unfinished and time.time() - self.changed < LIVE_SECONDS

    def summary(self) -> dict[str, Any]:
        """Return the entry in the list of sources."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "path": str(self.path).encode("utf-8", "replace").decode(),
            "changed": self.changed,
            "live": self.live,
            "broken": self.broken,
        }

    def max_turns(self, row: Row) -> int:
        """Return the limit of turns of the row's run, as far as it is known."""
        return max(Context().max_turns, row.turns)


class TraceFile(Source):
    """File of `agentflow solve --trace`."""

    kind = "traces"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        self._rows = Rows(Tail(path), of_trace)
        self.calls = CallsFile(path)

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines."""
        found = self._rows.refresh()
        self.changed, self.broken = self._rows.tail.changed, self._rows.broken
        return found

    def rows(self) -> Sequence[tuple[str, Row]]:
        """Return the rows, named by line number."""
        return [(str(number), row) for number, row in enumerate(self._rows.rows)]

    def summary(self) -> dict[str, Any]:
        """Return the entry with the latest question."""
        rows = self._rows.rows
        return {**super().summary(), "ended": len(rows), "what": rows[-1].question[:200] if rows else ""}


class Evaluation(TraceFile):
    """Folder of `agentflow eval --out`."""

    kind = "evaluation"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        self._rows = Rows(Tail(path / TRACES), of_record)
        self.calls = CallsFile(path / TRACES)
        self._settings_file = Watched(path / SETTINGS)
        self.settings: EvaluationSettings | None = None

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines."""
        if self._settings_file.changed():
            self.settings = _evaluation_settings(self._settings_file.content)
        return super().refresh()

    @property
    def unfinished(self) -> bool:
        """Return whether samples are left."""
        return self.settings is not None and len(self._rows.rows) < self.settings.number

    def summary(self) -> dict[str, Any]:
        """Return the entry with the accuracy."""
        return {**super().summary(), **evaluation_facts(self.settings, self._rows.rows)}

    def max_turns(self, row: Row) -> int:
        """Return the limit of turns in the settings."""
        return self.settings.context.max_turns if self.settings else super().max_turns(row)


def evaluation_facts(settings: EvaluationSettings | None, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the models and the accuracy of an evaluation: over all questions, and over those that have ended."""
    correct = sum(row.outcome == "correct" for row in rows)
    number = max(settings.number if settings else 0, len(rows))
    found: dict[str, Any] = {"ended": len(rows), "number": number, "correct": correct}
    found |= {"accuracy": correct / number if number else None, "so_far": correct / len(rows) if rows else None}
    if settings:
        found |= {"what": ", ".join(settings.benchmarks), "planner": settings.planner}
    return found


class Training(Source):
    """Folder of `agentflow train`."""

    kind = "training"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name)
        self._metrics = Tail(path / METRICS)
        self._settings_file = Watched(path / SETTINGS)
        self._test_tasks = Watched(path / "tasks" / "test.jsonl")
        self._files: dict[tuple[int, Split], Rows] = {}
        self._broken_metrics = 0
        self.lines: list[dict[str, Any]] = []
        """Lines of metrics.jsonl."""
        self.settings: dict[str, Any] = {}

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines of metrics.jsonl and of every rollout file."""
        changed, more = self._refresh_metrics(), False
        self._test_tasks.changed()
        if self._settings_file.changed():
            self.settings, changed = _object(self._settings_file.content) or {}, True
        for key, path in _rollout_files(self.path):
            self._files.setdefault(key, Rows(Tail(path), of_rollout))
        for key, rows in list(self._files.items()):
            own, rest = rows.refresh()
            changed, more = changed or own, more or rest
            if own and not rows.rows and not rows.tail.changed:
                del self._files[key]
        files = self._files.values()
        self.changed = max(self._settings_file.written, self._metrics.changed, *(rows.tail.changed for rows in files))
        self.broken = self._broken_metrics + sum(rows.broken for rows in files)
        return changed, more

    def _refresh_metrics(self) -> bool:
        news = self._metrics.look()
        if news.again:
            self.lines, self._broken_metrics = [], 0
        for _, line in news.lines or ():
            found = _object(line)
            if found and isinstance(found.get("step"), int) and found.get("split") in ("train", "test"):
                self.lines.append(found)
            else:
                self._broken_metrics += 1
        return bool(news)

    def rows(self) -> Sequence[tuple[str, Row]]:
        """Return the rows, named by step, split and number."""
        return [named for key in sorted(self._files) for named in self.of_step(*key)]

    def of_step(self, step: int, split: Split) -> list[tuple[str, Row]]:
        """Return the rollouts of a step, or of the validation after it."""
        rows = self._files[step, split].rows if (step, split) in self._files else []
        return [(f"{step}-{split}-{number}", row) for number, row in enumerate(rows)]

    def tokens(self, step: int, *, rows: bool = True) -> TokenStep | None:
        """Return the recorded tokens of the step, None if there are none."""
        path = self.path / TOKENS / token_file(step)
        try:
            content = b"" if path.parent.is_symlink() else read_file(path, _LARGEST_TOKENS)
        except OSError:
            return None
        return unpacked(content, rows=rows)

    def steps(self, split: str) -> list[int]:
        """Return the steps that have rollouts."""
        return sorted(step for (step, of), rows in self._files.items() if of == split and rows.rows)

    def measured(self) -> list[dict[str, Any]]:
        """Return, by step and split, the metrics of the rollouts that metrics.jsonl does not contain."""
        files = sorted(self._files.items())
        flow = self.settings.get("flow")
        zero = flow.get("count_as_zero", []) if isinstance(flow, dict) else []
        return [{"step": step, "split": split, **_measures(rows.rows, zero)} for (step, split), rows in files]

    @property
    def unfinished(self) -> bool:
        """Return whether steps are left."""
        return self._step < int(self.settings.get("steps", 0))

    @property
    def live(self) -> bool:
        """Return whether it may still be at work: a rollout can take as long as its time limit."""
        seconds = self.settings.get("rollout_seconds", 0)
        return self.unfinished and time.time() - self.changed < max(LIVE_SECONDS, seconds)

    @property
    def _doing(self) -> str:
        """Return what a live training does; "" for another."""
        if not self.live:
            return ""
        written = {(line["step"], line["split"]) for line in self.lines}
        under_way = [
            (rows.tail.changed, key, len(rows.rows)) for key, rows in self._files.items() if key not in written
        ]
        if not under_way:
            return "" if written else "starting"
        _, (step, split), ended = max(under_way)
        tasks = self._test_tasks.content.count(b"\n") if split == "test" else int(self.settings.get("questions", 0))
        tries = self.settings.get("validation_rollouts" if split == "test" else "rollouts", 1)
        return doing(step, split, ended, tasks * int(tries))

    @property
    def _step(self) -> int:
        return max((line["step"] for line in self.lines if line["split"] == "train"), default=0)

    def summary(self) -> dict[str, Any]:
        """Return the entry with rewards and accuracies by step."""
        rewards = [line.get("reward") for line in self.lines if line["split"] == "train"]
        accuracies = [line.get("accuracy") for line in self.lines if line["split"] == "test" and "lost" not in line]
        return {
            **super().summary(),
            "step": self._step,
            "steps": max(int(self.settings.get("steps", 0)), self._step),
            "what": str(self.settings.get("preset", "")),
            "doing": self._doing,
            "rewards": rewards,
            "accuracies": accuracies,
            "ended": sum(len(rows.rows) for rows in self._files.values()),
        }

    def max_turns(self, row: Row) -> int:
        """Return the app's limit of turns, as configured or by default."""
        options = self.settings.get("options")
        own = options.get("max_turns") if isinstance(options, dict) else None
        return own if isinstance(own, int) else max(TRAINED_TURNS, row.turns)


TRAINED_TURNS = 6
"""Default limit of turns of a rollout in agentflow.rl.apps.planner:atlas and agentflow.rl.apps.benchmark."""


class Watched:
    """Small file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.content = b""
        self._path = path
        self._seen: tuple[int, int] | None = None

    @property
    def written(self) -> float:
        """Return the time of the last write that was read; 0 if there was none."""
        return self._seen[0] / 1e9 if self._seen else 0.0

    def changed(self) -> bool:
        """Return whether the file changed since the last call, and read it if so."""
        try:
            stat = self._path.lstat()
            if (seen := (stat.st_mtime_ns, stat.st_ino)) == self._seen:
                return False
            self.content = read_file(self._path, LARGEST_SETTINGS)
        except OSError:
            return False
        self._seen = seen
        return True


LARGEST_SETTINGS = 1 << 20
_LARGEST_TOKENS = 32 << 20


def _evaluation_settings(content: bytes) -> EvaluationSettings | None:
    try:
        return model_from_json(EvaluationSettings, content)
    except ValidationError:
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; NaN and infinity become None. Return None for anything else."""
    return object_from_json(line, parse_constant=lambda _: None, parse_float=_finite)


def _finite(text: str) -> float | None:
    return value if math.isfinite(value := float(text)) else None


def _rollout_files(folder: Path) -> Iterator[tuple[tuple[int, Split], Path]]:
    try:
        paths = list((folder / ROLLOUTS).iterdir()) if not (folder / ROLLOUTS).is_symlink() else []
    except OSError:
        return
    for path in paths:
        if match := _ROLLOUTS.fullmatch(path.name):
            yield (int(match[1]), "test" if match[2] == "test" else "train"), path


def _measures(rows: Sequence[Row], zero: Collection[Cause]) -> dict[str, Any]:
    """Return the metrics of a step's rollouts, and the 95 % interval of their mean reward, by questions."""
    number = max(1, len(rows))
    turns = sum(row.turns for row in rows)
    rewards: dict[str, list[float]] = {}
    for row in rows:
        if rewarded(row.status, zero):
            rewards.setdefault(row.task, []).append(row.reward or 0.0)
    tries = max(map(len, rewards.values()), default=1)
    return {
        "rollouts": len(rows),
        "interval": accuracy_interval([*map(fmean, rewards.values())], tries) if rewards else None,
        "lost": dict(Counter(row.status for row in rows if row.status != RolloutStatus.OK)),
        "turns": turns / number,
        "sampled": sum(row.sampled for row in rows) / number,
        "tools": dict(Counter(tool or "(no tool)" for row in rows for tool in row.tools).most_common()),
        "errors": dict(Counter(error for row in rows for error in row.errors if error).most_common()),
    }
