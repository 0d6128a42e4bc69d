"""Construction of the index that `corpus.Corpus` reads, from passages or from a dump of any size.

The index is built in a temporary file next to its target, in batches. Each batch is a transaction that also records the
position in the dump, so a build that was killed resumes after its last batch. Memory use does not grow with the dump.
At the end the file is renamed to its target; readers of an older index there keep the old file.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol

from agentflow.tools.encyclopedia.corpus import APPLICATION_ID, COMMON, FORMAT, CorpusError, Passage, key_of, storable

BATCH = 5_000
"""Articles per transaction."""
_CACHE_KIB = 64 << 10

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE passage (number INTEGER PRIMARY KEY, id TEXT, key TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    title, text, content = passage, content_rowid = number, tokenize = "unicode61 remove_diacritics 2"
);
CREATE TABLE build (dump TEXT NOT NULL, position INTEGER NOT NULL, passages INTEGER NOT NULL);
"""
"""The build table has one row with the progress. It stays, and records the dump from which the index was built."""
_FINISH = f"""
CREATE INDEX IF NOT EXISTS passage_key ON passage (key);
INSERT INTO words (words) VALUES ('optimize');
CREATE VIRTUAL TABLE temp.counted USING fts5vocab (main, words, row);
DROP TABLE IF EXISTS common;
CREATE TABLE common (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO common SELECT term, doc FROM temp.counted WHERE doc >= {COMMON};
DROP TABLE temp.counted;
PRAGMA journal_mode = DELETE;
"""  # noqa: S608 - a constant of this package


class Dump(Protocol):
    """A file of articles."""

    identity: str
    """Changes when the file changes."""
    total: int
    """Its size, in the unit of `done`."""
    done: int
    """How much of it was read."""

    def articles(self, start: int) -> Iterator[tuple[int, list[Passage]]]:
        """Yield the passages of each article from position `start` on (0: the first), with the position after it.

        Raises CorpusError, which names the place.
        """
        ...


@dataclass(frozen=True)
class Progress:
    """The progress of a build."""

    phase: Literal["reading", "indexing"]
    done: int
    total: int
    passages: int


def build(path: str | Path, passages: Iterable[Passage]) -> int:
    """Write the index of `passages` to `path` and return their number. An existing file is replaced at the end.

    Passages are read one by one and may exceed the memory. A build that fails leaves nothing behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / "index"
        with closing(_open(new)) as connection:
            _create(connection, "")
            number = _fill(connection, ((position, [one]) for position, one in enumerate(passages)), lambda _: None)
            connection.executescript(_FINISH)
        os.replace(new, path)
    return number


def build_from_dump(path: Path, dump: Dump, on_progress: Callable[[Progress], None]) -> int:
    """Write the index of `dump` to `path` and return the number of its passages.

    A stopped build of the same dump is resumed. Raises CorpusError.
    """
    partial = partial_of(path)
    with _failures_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(_open(partial)) as connection:
            start = _taken_up(connection, dump.identity)

            def report(passages: int) -> None:
                on_progress(Progress("reading", dump.done, dump.total, passages))

            number = _fill(connection, dump.articles(start), report)
            if not number:
                raise CorpusError("the dump has no passages", code="empty_dump")
            on_progress(Progress("indexing", dump.total, dump.total, number))
            connection.executescript(_FINISH)
        os.replace(partial, path)
    return number


def partial_of(path: Path) -> Path:
    """Return the path of the temporary file in which the index of `path` is built."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def _failures_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise CorpusError(f"another build of {path} is under way; wait for it", code="locked") from error
        raise CorpusError(
            f"{path} cannot be written ({error}); make room, or choose another --out", code="unwritable"
        ) from error
    except (sqlite3.DatabaseError, OSError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise CorpusError(
            f"{path} cannot be written ({why}); remove {partial_of(path)} and try again", code="unwritable"
        ) from error


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=1)
    try:
        # One process at a time. A kill or a power cut leaves only complete batches.
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL", "temp_store = FILE"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection, dump: str) -> None:
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
    connection.execute("INSERT INTO build VALUES (?, 0, 0)", (dump,))
    connection.execute("COMMIT")


def _taken_up(connection: sqlite3.Connection, dump: str) -> int:
    """Return the position to resume from. It is 0 for a new file, and for one of another dump, which is emptied."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "build" in tables:
        known, position = connection.execute("SELECT dump, position FROM build").fetchone()
        if known == dump:
            return int(position)
    for table in tables & {"words", "passage", "build", "common"}:
        connection.execute(f"DROP TABLE {table}")
    _create(connection, dump)
    return 0


def _fill(
    connection: sqlite3.Connection, articles: Iterable[tuple[int, list[Passage]]], report: Callable[[int], None]
) -> int:
    """Add the passages in batches and return the new total."""
    (number,) = connection.execute("SELECT passages FROM build").fetchone()
    report(number)
    remaining = iter(articles)
    while batch := list(islice(remaining, BATCH)):
        numbers = count(number + 1)
        rows = [
            (next(numbers), p.id, key_of(p.title), storable(p.title), storable(p.text))
            for _, passages in batch
            for p in passages
        ]
        number += len(rows)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO passage (number, id, key, title, text) VALUES (?, ?, ?, ?, ?)", rows)
        connection.executemany(
            "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)", ((row[0], row[3], row[4]) for row in rows)
        )
        connection.execute("UPDATE build SET position = ?, passages = ?", (batch[-1][0], number))
        connection.execute("COMMIT")
        report(number)
    return int(number)
