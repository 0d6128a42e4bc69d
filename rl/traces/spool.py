"""Groups of JSON objects on disk: a file that does not fit into memory is grouped by trace, or by question."""

import json
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any


class Spool:
    """A temporary SQLite database without a name, which vanishes with the process."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("")
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        self._base.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, in_group INTEGER, item TEXT)")

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def add(self, group: str, item: Any) -> None:
        """Append an object to a group. `group` has no lone surrogates."""
        self._base.execute("INSERT OR IGNORE INTO groups (name) VALUES (?)", (group,))
        self._base.execute(
            "INSERT INTO items (in_group, item) SELECT id, ? FROM groups WHERE name = ?", (json.dumps(item), group)
        )

    def groups(self) -> Iterator[list[Any]]:
        """Yield the groups in the order of their first objects, each with its objects in order."""
        self._base.execute("CREATE INDEX IF NOT EXISTS by_group ON items (in_group)")
        rows = self._base.execute("SELECT in_group, item FROM items ORDER BY in_group, id")
        for _, items in groupby(rows, itemgetter(0)):
            yield [json.loads(item) for _, item in items]
