"""Results of search tools in one SQLite file, so that a run can be repeated without the network.

There are three modes. `off` disables the cache. `use` answers from the file, and makes and stores the requests that it
lacks. `replay` never makes a request, and a missing entry is a failure that says so.

A key is the tool, the source as configured, and the request; values are JSON. Concurrent identical requests are made
once. Several processes may share a file.
"""

import asyncio
import hashlib
import json
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from pydantic import TypeAdapter

from agentflow.tools.result import ErrorClass, ToolFailure

MODES = ("off", "use", "replay")

Answer = TypeVar("Answer")
Load = Callable[[], Awaitable[Answer]]
"""Requests the source. Raises ToolFailure."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answer (
    key TEXT PRIMARY KEY, tool TEXT NOT NULL, source TEXT NOT NULL, request TEXT NOT NULL,
    value TEXT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
_READ = "SELECT value FROM answer WHERE key = ? AND value IS NOT NULL"
_KEEP = "INSERT OR REPLACE INTO answer (key, tool, source, request, value) VALUES (?, ?, ?, ?, ?)"
LOCK_SECONDS = 30
"""Seconds for which a process waits for another one's write."""


def parse_mode(spec: str) -> tuple[str, Path]:
    """Return the mode and file of `MODE` or `MODE:FILE`. Raises ValueError."""
    mode, colon, file = spec.partition(":")
    if mode not in MODES or (colon and (not file or mode == "off")):
        raise ValueError(f"the search cache is one of {', '.join(MODES)}, or MODE:FILE, not '{spec}'")
    return mode, Path(file).expanduser() if file else Path(platformdirs.user_cache_dir("agentflow")) / "search.sqlite"


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
        return f"there is no recording at {path}; make it with --context search_cache=use:{path}"
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


async def cached(
    cache: "SearchCache | None", kind: type[Answer], tool: str, source: str, request: str, load: Load[Answer]
) -> Answer:
    """Return the source's answer, from the cache if there is one. Raises as `SearchCache.get` does."""
    if cache is None:
        return await load()
    form = TypeAdapter(kind)

    async def plain() -> Any:
        return form.dump_python(await load(), mode="json")

    return form.validate_python(await cache.get(tool, source, request, plain))


class SearchCache:
    """Answers by tool, source and request."""

    def __init__(self, mode: str, path: Path) -> None:
        """Set the mode, any of `MODES` except "off". The file is opened at the first request."""
        self.mode, self.path = mode, path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._under_way = weakref.WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock]()

    async def get(self, tool: str, source: str, request: str, load: Load[Any]) -> Any:
        """Return the answer, a JSON value. Raises ToolFailure: the source's, or for a missing recording."""
        question = (tool, source, request)
        key = hashlib.sha256(json.dumps(question).encode()).hexdigest()
        async with self._under_way.setdefault((asyncio.get_running_loop(), key), asyncio.Lock()):
            if kept := await asyncio.to_thread(self._read, key):
                return json.loads(kept)
            if self.mode == "replay":
                raise ToolFailure(
                    ErrorClass.TOOL_ERROR, f'{self.path} has no recording of {tool} "{request}"', code="no_recording"
                )
            value = await load()
            await asyncio.to_thread(self._keep, key, question, json.dumps(value))
            return value

    def _read(self, key: str) -> str | None:
        with self._lock, _named(self.path):
            row = self._open().execute(_READ, (key,)).fetchone()
        return row[0] if row else None

    def _keep(self, key: str, question: tuple[str, str, str], value: str) -> None:
        storable = (part.encode("utf-8", "replace").decode() for part in question)
        with self._lock, _named(self.path):
            self._open().execute(_KEEP, (key, *storable, value))

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
