"""Results of search tools in one SQLite file, so that a run can be repeated without the network.

There are four modes. `off` disables the cache. `use` answers from the file and requests only missing entries. `record`
always makes the request and stores the result. `replay` never makes a request, and a missing entry is a failure that
says so. Failures are recorded too, since a replayed run has to meet them again. `use` retries recorded failures, and a
failure never replaces a stored result.

A key is the tool, the source as configured, and the request; values are JSON. Concurrent identical requests are merged
into one (single flight). Several processes may share a file.
"""

import asyncio
import hashlib
import json
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from agentflow.tools.result import ErrorClass, ToolFailure

MODES = ("off", "use", "record", "replay")

Load = Callable[[], Awaitable[Any]]
"""Requests the source. Returns a JSON value, or raises ToolFailure."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answer (
    key TEXT PRIMARY KEY, tool TEXT NOT NULL, source TEXT NOT NULL, request TEXT NOT NULL,
    value TEXT, error TEXT, message TEXT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
_KEEP = """
INSERT INTO answer (key, tool, source, request, value, error, message) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    value = excluded.value, error = excluded.error, message = excluded.message, at = CURRENT_TIMESTAMP
    WHERE excluded.error IS NULL OR answer.error IS NOT NULL
"""
LOCK_SECONDS = 30
"""Seconds for which a process waits for another one's write."""


def parse_mode(spec: str) -> tuple[str, Path]:
    """Return the mode and file of `MODE` or `MODE:FILE`. Raises ValueError."""
    mode, colon, file = spec.partition(":")
    if mode not in MODES or (colon and (not file or mode == "off")):
        raise ValueError(f"the search cache is one of {', '.join(MODES)}, or MODE:FILE, not '{spec}'")
    return mode, Path(file) if file else Path(platformdirs.user_cache_dir("agentflow")) / "search.sqlite"


@lru_cache(maxsize=16)
def search_cache(spec: str) -> "SearchCache | None":
    """Return the cache of `MODE` or `MODE:FILE`, one per process, or None if it is off. Raises ValueError."""
    mode, path = parse_mode(spec)
    return None if mode == "off" else SearchCache(mode, path)


def unusable(spec: str) -> str | None:
    """Return one line on why the cache cannot be used, or None if it can."""
    try:
        mode, path = parse_mode(spec)
    except ValueError as error:
        return str(error)
    if mode == "replay" and not path.is_file():
        return f"there is no recording at {path}; make it with --context search_cache=record:{path}"
    if mode != "off" and path.exists() and not _is_database(path):
        return f"{path} is not a search cache; name another file after {mode}:"
    return None


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) in (b"SQLite format 3\0", b"")
    except OSError:
        return False


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Raise a ToolFailure that names the file if it cannot be used."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise ToolFailure(
            ErrorClass.TOOL_ERROR, f"the search cache {path} cannot be used ({error})", code="unusable_cache"
        ) from error


@dataclass
class _Flight:
    """A request in flight, and the number of callers that wait for it."""

    task: "asyncio.Task[Any]"
    waiting: int = 0


class SearchCache:
    """Answers by tool, source and request."""

    def __init__(self, mode: str, path: Path) -> None:
        """Set the mode, any of `MODES` except "off". The file is opened at the first request."""
        self.mode, self.path = mode, path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._flights: dict[tuple[asyncio.AbstractEventLoop, str], _Flight] = {}

    async def get(self, tool: str, source: str, request: str, load: Load) -> Any:
        """Return the answer according to the mode.

        Raises ToolFailure: the source's, a recorded one, or for a missing recording.
        """
        question = (tool, source, request)
        key = hashlib.sha256(json.dumps(question).encode()).hexdigest()
        flight_of = (asyncio.get_running_loop(), key)
        flight = self._flights.get(flight_of)
        if flight is None:
            flight = self._flights[flight_of] = _Flight(asyncio.create_task(self._answer(key, question, load)))
        flight.waiting += 1
        try:
            # A cancelled caller does not end the request for the others. It ends when no caller is left.
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                del self._flights[flight_of]
                flight.task.cancel()

    async def _answer(self, key: str, question: tuple[str, str, str], load: Load) -> Any:
        kept = None if self.mode == "record" else await asyncio.to_thread(self._read, key)
        if kept and (kept[1] is None or self.mode == "replay"):
            value, error, message = kept
            if error is not None:
                raise ToolFailure(ErrorClass(error), message)
            return json.loads(value)
        if self.mode == "replay":
            raise ToolFailure(
                ErrorClass.TOOL_ERROR,
                f'{self.path} has no recording of {question[0]} "{question[2]}"',
                code="no_recording",
            )
        try:
            value = await load()
        except ToolFailure as failure:
            await asyncio.to_thread(self._keep, key, question, None, failure.error.value, str(failure))
            raise
        await asyncio.to_thread(self._keep, key, question, json.dumps(value), None, None)
        return value

    def _read(self, key: str) -> tuple[Any, ...] | None:
        with self._lock, _named(self.path):
            row = self._open().execute("SELECT value, error, message FROM answer WHERE key = ?", (key,)).fetchone()
        return row  # type: ignore[no-any-return]

    def _keep(self, key: str, question: tuple[str, str, str], *outcome: str | None) -> None:
        storable = (part.encode("utf-8", "replace").decode() for part in question)
        with self._lock, _named(self.path):
            self._open().execute(_KEEP, (key, *storable, *outcome))

    def _open(self) -> sqlite3.Connection:
        """Return the open connection; the caller must hold the lock. Each statement is a separate transaction."""
        if self._connection is None:
            if self.mode == "replay":  # a recording may be read-only, and a replay does not create it
                uri = f"{self.path.resolve().as_uri()}?mode=ro"
                connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(
                    self.path, timeout=LOCK_SECONDS, check_same_thread=False, isolation_level=None
                )
            weakref.finalize(self, connection.close)
            if self.mode != "replay":
                connection.executescript(_SCHEMA)  # no WAL: a recording is a single file, to copy or make read-only
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close the file; the next request opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
