"""Storage of an evaluation in its run folder, so that it can be interrupted and resumed.

- `settings.json` has the settings. Opening the folder with other settings is an error, except for more tasks,
  benchmarks or epochs. Another version or other prompts are allowed, because the settings list the provenance of all
  samples.
- `traces.jsonl` has one line per sample that ended. An incomplete last line, which a killed process left, is dropped.
  A later line replaces an earlier one on the same sample: of a retry, or of a score by a mended rule.
- `traces.calls.jsonl` has the prompts and replies of these samples, which only the viewer reads.

A lock ensures that only one process writes at a time. `read` opens a folder for reading only.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

from agentflow.evals.record import EvaluationSettings, Key, Provenance, Record
from agentflow.evals.run_folder import SETTINGS, RunFolderError, read_settings, write_settings
from agentflow.graph.run.garbage import rarely_collected
from agentflow.graph.run.recorder import calls_file, calls_line, hash_of
from agentflow.graph.run.trace import append_line, to_line
from agentflow.tools import file_lock
from agentflow.tools.json_codec import model_from_json, read_regular
from agentflow.tools.redaction import redacted_data

TRACES = "traces.jsonl"
TRACE_OF_CALLS = re.compile(rb'\{"trace": "([0-9a-f]{16})"')
"""Start of a line of `traces.calls.jsonl`, with the hash of its trace."""

Model = TypeVar("Model", bound=BaseModel)


class Records:
    """Records of an evaluation, in memory only."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Record] = {}
        """Records of the samples that ended."""
        self.differences: list[str] = []
        """Differences of the current program from the one that made the last records of an earlier call."""

    def add(self, record: Record) -> None:
        """Add `record`, replacing an earlier one of the same sample, without its calls, which would fill memory."""
        self.by_key[record.key] = record.model_copy(update={"calls_made": None})

    def close(self) -> None:
        """Release resources; no record may be added afterwards."""


class ResultsStore(Records):
    """Records of an evaluation, stored in a run folder."""

    def __init__(self, folder: Path, settings: EvaluationSettings) -> None:
        """Open or create `folder`. Raises RunFolderError if it holds another run or cannot be written."""
        super().__init__()
        settings = EvaluationSettings.model_validate(redacted_data(settings.model_dump()))
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / TRACES).open("ab+")
            self._calls = calls_file(folder / TRACES)
        except OSError as error:
            raise RunFolderError(
                f"cannot write to {folder} ({error.strerror}); choose another --out", code="unwritable"
            ) from error
        try:
            lock(self._file, folder)
            stored = settings.model_copy(update={"provenance": []})
            if self._file.tell():
                stored = _grown(folder, stored)
            elif (folder / SETTINGS).exists():
                read_settings(folder, EvaluationSettings)  # raises for a run of another kind or version
            write_settings(folder, stored)
            drop_torn_line(self._file)
            self.by_key = _records(folder)
            self._unsigned = self._signed(stored, *settings.provenance[-1:])
        except BaseException:
            self._file.close()
            raise

    def add(self, record: Record) -> None:
        """Add `record` and write it to the file, flushed but without fsync. Raises OSError."""
        if self._unsigned:
            write_settings(self._folder, self._unsigned)
            self._unsigned = None
        line = to_line(record).encode() + b"\n"
        if record.calls_made:
            append_line(self._calls, calls_line(record.calls_made, line))
        self._file.write(line)
        self._file.flush()
        super().add(record)

    def close(self) -> None:
        """Close the file and release the lock on the folder."""
        self._file.close()

    def _signed(self, stored: EvaluationSettings, made: Provenance | None = None) -> EvaluationSettings | None:
        """Return the settings with the provenance of the samples to come, None if neither program nor call is new."""
        if not made:
            return None
        if stored.provenance:
            last = stored.provenance[-1]
            self.differences = made.differences(last)
            if not self.differences and made.call == last.call:
                return None
        signed = made.model_copy(update={"before": len(self.by_key)})
        return stored.model_copy(update={"provenance": [*stored.provenance, signed]})


def read(folder: Path) -> tuple[EvaluationSettings, list[Record]]:
    """Read the settings and records in `folder`, also while the evaluation runs. Raises RunFolderError."""
    return read_settings(folder, EvaluationSettings), list(_records(folder).values())


def store_scores(folder: Path, records: Sequence[Record], settings: Mapping[str, object]) -> None:
    """Append `records`, which were scored again, with the calls of their first lines, and change `settings`.

    Raises RunFolderError, and OSError if the disk is full.
    """
    try:
        with (folder / TRACES).open("ab+") as file:
            lock(file, folder)
            drop_torn_line(file)
            file.seek(0)
            first = {model_from_json(Record, line).key: hash_of(line) for line in file}
            lines = {first[record.key].encode(): to_line(record).encode() + b"\n" for record in records}
            file.writelines(lines.values())
        write_settings(folder, read_settings(folder, EvaluationSettings).model_copy(update=settings))
        if (calls := calls_file(folder / TRACES)).exists():
            for line in calls.read_bytes().splitlines():
                if (named := TRACE_OF_CALLS.match(line)) and named[1] in lines:
                    append_line(calls, line.replace(named[1], hash_of(lines[named[1]]).encode(), 1) + b"\n")
    except PermissionError as error:
        raise RunFolderError(f"cannot write to {folder} ({error.strerror})", code="unwritable") from error


def lock(file: IO[bytes], folder: Path) -> None:
    """Lock a file of a run folder until it is closed. Raises RunFolderError if another process holds it."""
    try:
        file_lock.lock(file)
    except BlockingIOError as error:
        raise RunFolderError(
            f"another process writes to {folder}; wait for it, or choose another --out", code="locked"
        ) from error


def _records(folder: Path) -> dict[Key, Record]:
    with rarely_collected():
        return {record.key: record for record in lines_of(folder / TRACES, Record, "a trace")}


def drop_torn_line(file: IO[bytes]) -> None:
    """Drop an incomplete last line, which a killed process left."""
    file.seek(0)
    os.ftruncate(file.fileno(), file.read().rfind(b"\n") + 1)


def lines_of(path: Path, kind: type[Model], what: str) -> Iterator[Model]:
    """Yield the lines of a file, without an incomplete last one. Raises RunFolderError."""
    try:
        *lines, _torn = read_regular(path).split(b"\n")
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be read ({error.strerror}); name an evaluation's folder", code="unreadable"
        ) from error
    for number, line in enumerate(lines, start=1):
        try:
            yield model_from_json(kind, line)
        except ValidationError as error:
            reason = f"{path}, line {number} is not {what}; mend it, or choose another folder"
            raise RunFolderError(reason, code="bad_line") from error


def _grown(folder: Path, settings: EvaluationSettings) -> EvaluationSettings:
    """Return `settings` merged with those of `folder`: all benchmarks, most tasks and most epochs of both.

    Raises RunFolderError if other settings differ.
    """
    old, fixed = read_settings(folder, EvaluationSettings), {"benchmarks", "epochs", "prices", "provenance"}
    before, now = (
        {**one.model_dump(exclude={*fixed, "context"}), **one.context.model_dump()} for one in (old, settings)
    )
    different = [name for name in now if before[name] != now[name]]
    both = [name for name in settings.benchmarks if name in old.benchmarks]  # in their order
    different += [name for name in both if settings.benchmarks[name].digest != old.benchmarks[name].digest]
    if different:
        raise RunFolderError(
            f"{folder} was made with other settings ({', '.join(sorted(different))}); use the same, or choose another "
            "--out",
            code="other_settings",
        )
    larger = {
        name: max(old.benchmarks.get(name, ours), ours, key=lambda one: one.questions)
        for name, ours in settings.benchmarks.items()
    }
    grown = {
        "benchmarks": {**old.benchmarks, **larger},
        "epochs": max(old.epochs, settings.epochs),
        "provenance": old.provenance,
    }
    return settings.model_copy(update=grown)
