"""The folder of an evaluation: its settings and one record per line, so that it can be killed and taken up again.

`settings.json` says what was run; another evaluation is refused, except that more questions, more benchmarks and more
epochs may be added. Another program (version, prompts) is not refused: the settings name each that added tries.
`traces.jsonl` grows by one line per item that ends. A line that a kill left torn is the last one and is dropped; a
later line on the same item takes the place of the earlier one. `rulings.jsonl` has what was decided on them later.
One process at a time writes, which a lock sees to.
`read` is for those who only look.
"""

import fcntl
import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

from agentflow.evals.record import Dataset, EvaluationSettings, Key, Record
from agentflow.evals.rulings import Ruling
from agentflow.evals.run_folder import SETTINGS, RunFolderError, read_settings, write_settings
from agentflow.evals.trace import to_line
from agentflow.tools.redaction import redacted_data

TRACES, RULINGS = "traces.jsonl", "rulings.jsonl"


Model = TypeVar("Model", bound=BaseModel)


class ResultsError(Exception):
    """The folder cannot be used; the message is one line that says what to do."""


class Records:
    """The records of an evaluation, in memory only."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Record] = {}
        """What has ended."""

    def add(self, record: Record) -> None:
        """Keeps `record`, in place of an earlier one on the same item."""
        self.by_key[record.key] = record

    def close(self) -> None:
        """Nothing is added any more."""

    @property
    def differences(self) -> list[str]:
        """In what the program that adds to them is another one than that which made them so far."""
        return []


class ResultsStore(Records):
    """The records of an evaluation, kept in a folder."""

    def __init__(self, folder: Path, settings: EvaluationSettings) -> None:
        """Opens or makes `folder`. Raises ResultsError if it holds something else than this evaluation's records."""
        super().__init__()
        settings = EvaluationSettings.model_validate(redacted_data(settings.model_dump()))
        self._folder, self._provenance = folder, settings.provenance[-1] if settings.provenance else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / TRACES).open("ab+")
        except OSError as error:
            raise ResultsError(f"cannot write to {folder} ({error.strerror}); choose another --out") from error
        try:
            _lock(self._file, folder)
            self._settings = settings.model_copy(update={"provenance": []})
            if self._file.tell():
                self._settings = _grown(folder, self._settings)
            elif (folder / SETTINGS).exists():
                _settings(folder)  # refuses the folder of another kind or version
            write_settings(folder, self._settings)
            _drop_torn_line(self._file)
            self.by_key = _records(folder)
        except BaseException:
            self._file.close()
            raise

    def add(self, record: Record) -> None:
        """Keeps `record`, on disk as far as the operating system goes. Raises OSError."""
        self._sign()
        self._file.write(to_line(record).encode() + b"\n")
        self._file.flush()
        super().add(record)

    def close(self) -> None:
        """Gives the folder free for another process."""
        self._file.close()

    @property
    def differences(self) -> list[str]:
        """As above."""
        return (
            self._provenance.differences(self._settings.provenance[-1])
            if self._provenance and self._settings.provenance
            else []
        )

    def _sign(self) -> None:
        """Writes down by what the tries from here on are made, before the first of them."""
        last = self._settings.provenance[-1:]
        if self._provenance and (self.differences or self._provenance.call not in [made.call for made in last]):
            made = self._provenance.model_copy(update={"before": len(self.by_key)})
            self._settings = self._settings.model_copy(update={"provenance": [*self._settings.provenance, made]})
            write_settings(self._folder, self._settings)
        self._provenance = None


def read(folder: Path) -> tuple[EvaluationSettings, list[Record]]:
    """What an evaluation has left in `folder` so far, also while it runs. Raises ResultsError."""
    return _settings(folder), list(_records(folder).values())


def rule(folder: Path, rulings: Sequence[Ruling]) -> None:
    """Adds to the rulings of `folder`. Raises ResultsError, and OSError if the disk is full."""
    try:
        with (folder / TRACES).open("rb") as traces, (folder / RULINGS).open("ab+") as file:
            _lock(traces, folder)
            _drop_torn_line(file)
            file.write("".join(to_line(ruling) + "\n" for ruling in rulings).encode())
    except PermissionError as error:
        raise ResultsError(f"cannot write to {folder} ({error.strerror})") from error


def digest(folder: Path) -> str:
    """SHA-256 of `traces.jsonl`, and of `rulings.jsonl` behind it if there is one: scores are of these lines.

    Raises ResultsError.
    """
    found = hashlib.sha256(_content(folder / TRACES))
    if (folder / RULINGS).exists():
        found.update(_content(folder / RULINGS))
    return found.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ResultsError(f"{path} cannot be read ({error.strerror}); name an evaluation's folder") from error


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ResultsError(f"another evaluation writes to {folder}; wait for it, or choose another --out") from error


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for garbage meanwhile. Records hold no cycles and all of them stay, so that it would find none, and
    with tens of thousands of them it takes most of the time to read them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _records(folder: Path) -> dict[Key, Record]:
    with collection_paused():
        records = {record.key: record for record in _lines(folder / TRACES, Record, "a trace")}
    if not (folder / RULINGS).exists():
        return records
    later: dict[Key, list[Ruling]] = {}
    for ruling in _lines(folder / RULINGS, Ruling, "a ruling"):
        later.setdefault((ruling.benchmark, ruling.id, ruling.sample), []).append(ruling)
    judge = _settings(folder).judge
    ended = datetime.fromtimestamp((folder / TRACES).stat().st_mtime, UTC)
    return {key: record.ruled(later[key], judge, ended) if key in later else record for key, record in records.items()}


def _drop_torn_line(file: IO[bytes]) -> None:
    file.seek(0)
    os.ftruncate(file.fileno(), file.read().rfind(b"\n") + 1)


def _lines(path: Path, kind: type[Model], what: str) -> Iterator[Model]:
    """The lines of a file but a torn last one. Raises ResultsError."""
    *lines, _torn = _content(path).split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield kind.model_validate_json(line)
        except ValidationError as error:
            reason = f"{path}, line {number} is not {what}; mend it, or choose another folder"
            raise ResultsError(reason) from error


def _settings(folder: Path) -> EvaluationSettings:
    try:
        return read_settings(folder, EvaluationSettings)
    except RunFolderError as error:
        raise ResultsError(str(error)) from error


def _grown(folder: Path, settings: EvaluationSettings) -> EvaluationSettings:
    """The settings of `folder` with what is asked for beyond them. Raises ResultsError where the two do not agree."""
    old, fixed = _settings(folder), {"benchmarks", "epochs", "provenance"}
    before, now = (
        {**one.model_dump(exclude={*fixed, "context"}), **one.context.model_dump()} for one in (old, settings)
    )
    different = [name for name in now if before[name] != now[name]]
    different += [name for name, ours in settings.benchmarks.items() if _differ(old.benchmarks.get(name), ours)]
    if different:
        raise ResultsError(
            f"{folder} was made with other settings ({', '.join(sorted(different))}); use the same, or choose another "
            "--out"
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


def _differ(old: Dataset | None, new: Dataset) -> bool:
    return old is not None and old.digest != new.digest
