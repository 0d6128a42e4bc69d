"""The folder of an evaluation: its settings and one record per line, so that it can be killed and taken up again.

`settings.json` says what was run; another evaluation is refused. `episodes.jsonl` grows by one line per item that
ends. A line that a kill left torn is the last one and is dropped; a later line on the same item takes the place of the
earlier one. One process at a time writes, which a lock sees to.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow.evals.episode import to_line
from agentflow.evals.runner import Record


class JournalError(Exception):
    """The folder cannot be used; the message is one line that says what to do."""


class Records:
    """The records of an evaluation, in memory only."""

    def __init__(self) -> None:
        self.by_id: dict[str, Record] = {}
        """What has ended, by the item's id."""

    def add(self, record: Record) -> None:
        """Keeps `record`, in place of an earlier one on the same item."""
        self.by_id[record.id] = record

    def close(self) -> None:
        """Nothing is added any more."""


class Journal(Records):
    """The records of an evaluation, kept in a folder."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        """Opens or makes `folder`. Raises JournalError if it holds something else than this evaluation's records."""
        super().__init__()
        path = folder / "episodes.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+")
        except OSError as error:
            raise JournalError(f"cannot write to {folder} ({error.strerror}); choose another --out") from error
        try:
            self._lock(folder)
            _same_settings(folder, settings, new=self._file.tell() == 0)
            self._read(path)
        except BaseException:
            self._file.close()
            raise

    def add(self, record: Record) -> None:
        """Keeps `record`, on disk as far as the operating system goes. Raises OSError."""
        self._file.write(to_line(record).encode() + b"\n")
        self._file.flush()
        super().add(record)

    def close(self) -> None:
        """Gives the folder free for another process."""
        self._file.close()

    def _lock(self, folder: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalError(
                f"another evaluation writes to {folder}; wait for it, or choose another --out"
            ) from error

    def _read(self, path: Path) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._file.fileno(), len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                record = Record.model_validate_json(line)
            except ValidationError as error:
                problem = f"{path}, line {number} is not an episode; mend it, or choose another --out"
                raise JournalError(problem) from error
            super().add(record)


def _same_settings(folder: Path, settings: dict[str, Any], *, new: bool) -> None:
    """Writes the settings of a new evaluation, or compares those of an old one."""
    path = folder / "settings.json"
    if new:
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        return
    try:
        old = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        raise JournalError(f"{folder} has episodes but no readable settings.json; choose another --out") from None
    if different := sorted(name for name in {*old, *settings} if old.get(name) != settings.get(name)):
        raise JournalError(
            f"{folder} was made with other settings ({', '.join(different)}); use the same, or choose another --out"
        )
