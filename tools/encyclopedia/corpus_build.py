"""Construction of the index that `corpus.Corpus` reads.

The index is built in a temporary file beside its target, in batches, so memory use does not grow with the passages. At
the end the file is renamed to its target; readers of an older index there keep the old file.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from agentflow.tools.encyclopedia.corpus import APPLICATION_ID, COMMON, FORMAT, CorpusError, Passage, key_of, storable

BATCH = 5_000
"""Passages between reports."""

_OPEN = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE passage (number INTEGER PRIMARY KEY, id TEXT, key TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    title, text, content = passage, content_rowid = number, tokenize = "unicode61 remove_diacritics 2"
);
"""
"""A build that fails leaves no file, so nothing has to be undone in it."""
_FINISH = f"""
CREATE INDEX passage_key ON passage (key);
INSERT INTO words (words) VALUES ('optimize');
CREATE VIRTUAL TABLE temp.counted USING fts5vocab (main, words, row);
CREATE TABLE common (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO common SELECT term, doc FROM temp.counted WHERE doc >= {COMMON};
DROP TABLE temp.counted;
"""  # noqa: S608 - a constant of this package


def build(path: Path, passages: Iterable[Passage], report: Callable[[int], None] = lambda number: None) -> int:
    """Write the index of `passages` to `path` and return their number. An existing index is replaced at the end.

    Passages are read one by one and may exceed the memory. A build that fails leaves nothing behind. `report` is called
    with the number of passages so far. Raises CorpusError if the index cannot be written, or `path` is another file.
    """
    try:
        if path.is_file():
            with path.open("rb") as file:
                if file.read(72)[68:] != APPLICATION_ID.to_bytes(4, "big"):  # where SQLite has it
                    raise CorpusError(f"{path} exists and is not an index; choose another --out", code="not_corpus")
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            new = Path(folder) / "index"
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.executescript(_OPEN)
                connection.execute("BEGIN")
                number = _fill(connection, passages, report)
                connection.execute("COMMIT")
                connection.executescript(_FINISH)
            os.replace(new, path)
    except (sqlite3.Error, OSError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise CorpusError(
            f"{path} cannot be written ({why}); make room, or choose another --out", code="unwritable"
        ) from error
    return number


def _fill(connection: sqlite3.Connection, passages: Iterable[Passage], report: Callable[[int], None]) -> int:
    """Add the passages in batches and return their number."""
    number, remaining = 0, iter(passages)
    while batch := list(islice(remaining, BATCH)):
        rows = [
            (place, one.id, key_of(one.title), storable(one.title), storable(one.text))
            for place, one in enumerate(batch, start=number + 1)
        ]
        connection.executemany("INSERT INTO passage VALUES (?, ?, ?, ?, ?)", rows)
        words = ((place, title, text) for place, _, _, title, text in rows)
        connection.executemany("INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)", words)
        number += len(rows)
        report(number)
    return number
