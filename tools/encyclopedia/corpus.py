"""A local encyclopedia: passages with titles in one SQLite file, found by exact title or by full text (FTS5, BM25).

Serves Atlas and any dump with the same code. A file is written elsewhere (`corpus_build`) and never changed: readers
need no locks on it.

A look-up has to stay quick however many passages there are. What takes time is ranking, passage by passage, so that it
is bounded: words that are in very many passages, whose number was counted when the index was built, are left out where
rarer words do. Where a query has only such words, a passage has to hold the two rarest, best in its title. Words that
are nearly everywhere say nothing, so that any passage with one will do.
"""

import re
import sqlite3
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

APPLICATION_ID = 0x4146_4358
"""Marks the SQLite file as one of ours ("AFCX")."""
FORMAT = 2
MAX_TERMS = 64
"""Terms of a query that are searched for; SQLite bounds the size of an expression."""
MAX_RANKED = 5_000
"""Passages that are ranked for one query, about: two microseconds each."""
MAX_COUNTED = 30_000
"""Passages of one word that are counted for its weight, which takes less time, but is done before any is ranked."""
COMMON = 100
"""Passages that a word is in, at least, for its number to be in the index; a rarer one costs nothing that matters."""

_SEARCH = """
SELECT title, passage.text, id FROM (
    SELECT found, score FROM (
        SELECT rowid AS found, bm25(words, 4.0, 1.0) AS score FROM words WHERE words MATCH ? LIMIT ?
    ) ORDER BY score, found LIMIT ?
) JOIN passage ON number = found ORDER BY score, found
"""
"""A term in the title weighs four times one in the text: queries are names."""
_FIRST = "SELECT title, text, id FROM passage WHERE number IN (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)"
"""Any passages with a word, unranked."""


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
            raise CorpusError(f"there is no corpus at {path}; build one with agentflow corpus build")
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
            raise CorpusError(
                f"{path} is not a corpus index of this version; build it anew with agentflow corpus build"
            )

    def __len__(self) -> int:
        """Number of passages."""
        return int(self._rows("SELECT count(*) FROM passage")[0][0])

    def page(self, title: str) -> Passage | None:
        """The first passage with this title; case and white space do not count."""
        rows = self._rows("SELECT title, text, id FROM passage WHERE key = ? ORDER BY number LIMIT 1", key_of(title))
        return Passage(*rows[0]) if rows else None

    def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages that hold any word of `query`, best first. Any string is a valid query."""
        terms = list(dict.fromkeys(re.findall(r"[^\W_]+", query)))[:MAX_TERMS]
        for expression in self._expressions(terms):
            if rows := self._rows(_SEARCH, expression, MAX_RANKED, k):
                return [Passage(*row) for row in rows]
        return [Passage(*row) for row in self._rows(_FIRST, _any_of(terms), k)] if terms else []

    def _expressions(self, terms: list[str]) -> Iterator[str]:
        """What to search for; a further one is for when the last had no hit."""
        numbers = {term: self._passages_with(term) for term in terms}
        by_rarity = sorted(terms, key=lambda term: numbers[term])
        ranked = list(accumulate(numbers[term] for term in by_rarity))
        rare = by_rarity[: bisect_right(ranked, MAX_RANKED)]
        if rare:
            yield _any_of(term for term in terms if term in rare)
        common = [f'"{term}"' for term in by_rarity if MAX_RANKED < numbers[term] <= MAX_COUNTED][:2]
        if common:
            yield f"{{title}} : ({' AND '.join(common)})"
            yield " AND ".join(common)

    def _passages_with(self, term: str) -> int:
        """About how many; 0 of a word that is not common."""
        rows = self._rows("SELECT passages FROM common WHERE term = ?", _folded(term))
        return int(rows[0][0]) if rows else 0

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


def _any_of(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def key_of(title: str) -> str:
    """What titles are compared by."""
    return storable(" ".join(unicodedata.normalize("NFKC", title).split()).casefold())


def storable(text: str) -> str:
    """`text` without lone surrogates, which JSON can hold but SQLite cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _folded(term: str) -> str:
    """A term as the index's tokenizer writes it: lower case, without diacritics."""
    return "".join(c for c in unicodedata.normalize("NFKD", term.lower()) if not unicodedata.combining(c))
