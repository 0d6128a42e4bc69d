"""A local encyclopedia: passages with titles in one SQLite file, found by exact title or by full text (FTS5, BM25).

Serves Atlas and any JSONL corpus with the same code. A file is built beside its place and renamed into it, and never
changed again: readers need no locks on it, and a build that fails leaves nothing behind.
"""

import json
import os
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from types import TracebackType
from typing import Self

APPLICATION_ID = 0x4146_4358
"""Marks the SQLite file as one of ours ("AFCX")."""
FORMAT = 1
MAX_TERMS = 64
"""Terms of a query that are searched for; SQLite bounds the size of an expression."""

_SCHEMA = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE passage (number INTEGER PRIMARY KEY, id TEXT, key TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    title, text, content = passage, content_rowid = number, tokenize = "unicode61 remove_diacritics 2"
);
"""
_INDEX = """
CREATE INDEX passage_key ON passage (key);
INSERT INTO words (words) VALUES ('rebuild');
INSERT INTO words (words) VALUES ('optimize');
"""
_SEARCH = """
SELECT passage.title, passage.text, id FROM words JOIN passage ON number = words.rowid
WHERE words MATCH ? ORDER BY bm25(words, 4.0, 1.0), number LIMIT ?
"""
"""A term in the title weighs four times one in the text: queries are names."""


class CorpusError(Exception):
    """A corpus cannot be read or built; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One article or part of one."""

    title: str
    text: str
    id: str | None = None
    """The corpus's own identifier, where it has one."""


class Corpus:
    """An index, open for reading. Safe to use from several threads at once."""

    def __init__(self, path: str | Path) -> None:
        """Raises CorpusError if there is no index at `path`."""
        path = Path(path)
        if not path.is_file():
            raise CorpusError(f"there is no corpus at {path}; build one with Corpus.build")
        self._lock = threading.Lock()
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            marks = [
                self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            ]
        except sqlite3.DatabaseError:
            marks = []
        if marks != [APPLICATION_ID, FORMAT]:
            self.close()
            raise CorpusError(f"{path} is not a corpus index of this version; build it anew with Corpus.build")

    def __len__(self) -> int:
        """Number of passages."""
        return int(self._rows("SELECT count(*) FROM passage")[0][0])

    def page(self, title: str) -> Passage | None:
        """The first passage with this title; case and white space do not count."""
        rows = self._rows("SELECT title, text, id FROM passage WHERE key = ? ORDER BY number LIMIT 1", _key(title))
        return Passage(*rows[0]) if rows else None

    def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that hold any word of `query`, best first. Any string is a valid query."""
        terms = list(dict.fromkeys(re.findall(r"\w+", query)))[:MAX_TERMS]
        expression = " OR ".join(f'"{term}"' for term in terms)
        return [Passage(*row) for row in self._rows(_SEARCH, expression, k)] if terms else []

    def _rows(self, statement: str, *values: str | int) -> list[tuple[str, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Closes the file; the corpus cannot be used after it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def build(path: str | Path, passages: Iterable[Passage]) -> int:
        """Writes the index of `passages` to `path`, replacing what was there at the end, and returns their number.

        The passages are read one by one and may be more than fit into memory.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            with closing(sqlite3.connect(beside)) as connection, connection:
                connection.executescript(_SCHEMA)
                rows = ((p.id, _key(p.title), _storable(p.title), _storable(p.text)) for p in passages)
                connection.executemany("INSERT INTO passage (id, key, title, text) VALUES (?, ?, ?, ?)", rows)
                connection.executescript(_INDEX)
                count = int(connection.execute("SELECT count(*) FROM passage").fetchone()[0])
            os.chmod(beside, 0o644)  # mkstemp makes it private; a corpus may be shared like any data file
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
        return count


def passages_from_jsonl(path: str | Path) -> Iterator[Passage]:
    """Passages of a JSON-lines file with objects {"title", "text", "id"?}. Raises CorpusError that names the line."""
    try:
        file = open(path, encoding="utf-8")  # noqa: SIM115 - only opening it may fail with this message
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from error
    with file:
        for number, line in enumerate(_lines(file, path), start=1):
            if line.strip():
                yield _passage(line, f"{path}, line {number}")


def _lines(file: Iterable[str], path: str | Path) -> Iterator[str]:
    try:
        yield from file
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text") from error


def _passage(line: str, place: str) -> Passage:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise CorpusError(f"{place}: not JSON: {error}") from error
    if not isinstance(record, dict):
        raise CorpusError(f'{place}: expected an object with "title" and "text"')
    for field in ("title", "text"):
        if not isinstance(record.get(field), str) or not record[field].strip():
            raise CorpusError(f'{place}: "{field}" must be a text that is not empty')
    identifier = record.get("id")
    return Passage(record["title"], record["text"], None if identifier is None else str(identifier))


def _key(title: str) -> str:
    """What titles are compared by."""
    return _storable(" ".join(unicodedata.normalize("NFKC", title).split()).casefold())


def _storable(text: str) -> str:
    """`text` without lone surrogates, which JSON can hold but SQLite cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
