"""A local encyclopedia: passages with titles in one SQLite file, searched by exact title or full text (FTS5, BM25).

It works for Atlas and for any dump. A file is written by `corpus_build` and never changed, so readers need no locks on
it.

A lookup stays fast for any number of passages. Its time goes into ranking, passage by passage, so the number of ranked
passages is bounded. The index stores how many passages contain each common word. Very common words are left out of a
query that has rarer ones. If a query has only common words, a passage has to contain the two rarest, preferably in its
title. Words in nearly every passage carry no information, so any passage with one is accepted.
"""

import re
import sqlite3
import threading
import unicodedata
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from agentflow.tools.coded_error import CodedError

APPLICATION_ID = 0x4146_4358
"""Marks the SQLite file as a corpus index ("AFCX")."""
FORMAT = 2
MAX_TERMS = 64
"""Maximum number of terms searched per query, since SQLite bounds the size of an expression."""
MAX_RANKED = 5_000
"""approximate maximum number of passages ranked per query, at two microseconds each."""
MAX_COUNTED = 30_000
"""Maximum number of passages counted for one word's weight. Counting is faster than ranking, but happens before it."""
COMMON = 100
"""Number of passages from which a word is stored as common. The cost of rarer words is negligible."""

SAMPLE = 1_000
"""Number of texts by which an index is one of passages or of articles."""
MAX_PASSAGE = 1_200
"""Mean number of characters up to which texts are passages, which can be shown in full."""

_MEAN = "SELECT avg(length(text)) FROM (SELECT text FROM passage ORDER BY number LIMIT ?)"
_SEARCH = """
SELECT title, passage.text, id FROM (
    SELECT found, score FROM (
        SELECT rowid AS found, bm25(words, 4.0, 1.0) AS score FROM words WHERE words MATCH ? LIMIT ?
    ) ORDER BY score, found LIMIT ?
) JOIN passage ON number = found ORDER BY score, found
"""
"""A term in the title has four times the weight of one in the text, since queries are names."""
_TITLED = "SELECT title, text, id, min(number) AS first FROM passage WHERE key = ? GROUP BY text ORDER BY first LIMIT ?"
_FIRST = "SELECT title, text, id FROM passage WHERE number IN (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)"
"""Any passages that contain a word, unranked."""


class CorpusError(CodedError):
    """A corpus that cannot be read or built; the message is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Passage:
    """An article or a part of one."""

    title: str
    text: str
    id: str | None = None
    """The corpus's own identifier, if it has one."""


class Corpus:
    """An index open for reading, safe to use from several threads at once."""

    def __init__(self, path: str | Path) -> None:
        """Open the index at `path`. Raises CorpusError if there is none."""
        path = Path(path)
        if not path.is_file():
            raise CorpusError(f"there is no corpus at {path}; build one with agentflow corpus build", code="no_corpus")
        self._lock = threading.Lock()
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._close = weakref.finalize(self, self._connection.close)
        try:
            marks = [
                self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            ]
        except sqlite3.DatabaseError:
            marks = []
        if marks != [APPLICATION_ID, FORMAT]:
            self.close()
            raise CorpusError(
                f"{path} is not a corpus index of this version; build it anew with agentflow corpus build",
                code="not_corpus",
            )

    @cached_property
    def is_of_passages(self) -> bool:
        """True if its texts are short, as passages are, going by the first ones."""
        return float(self._rows(_MEAN, SAMPLE)[0][0] or 0) <= MAX_PASSAGE

    def pages(self, title: str, k: int) -> list[Passage]:
        """Return the first `k` texts with this title, each once, ignoring case and white space: an article in parts."""
        return [Passage(*row[:3]) for row in self._rows(_TITLED, key_of(title), k)]

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages that contain any word of `query`, best first. Any string is a valid query."""
        terms = list(dict.fromkeys(re.findall(r"[^\W_]+", query)))[:MAX_TERMS]
        for expression in self._expressions(terms):
            if rows := self._rows(_SEARCH, expression, MAX_RANKED, k):
                return [Passage(*row) for row in rows]
        return [Passage(*row) for row in self._rows(_FIRST, _any_of(terms), k)] if terms else []

    def _expressions(self, terms: list[str]) -> Iterator[str]:
        """Yield the expressions to search for; each is tried only if the previous one had no hit."""
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
        """Return approximately how many passages contain the term, or 0 if it is not common."""
        rows = self._rows("SELECT passages FROM common WHERE term = ?", _folded(term))
        return int(rows[0][0]) if rows else 0

    def _rows(self, statement: str, *values: str | int) -> list[tuple[str, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the file, which otherwise happens with the last reference. The corpus cannot be used afterwards."""
        self._close()


def _any_of(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def key_of(title: str) -> str:
    """Return the normalised title by which titles are compared."""
    return storable(" ".join(unicodedata.normalize("NFKC", title).split()).casefold())


def storable(text: str) -> str:
    """Return `text` without lone surrogates, which are valid in JSON but not in SQLite."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _folded(term: str) -> str:
    """Return a term in the form of the index's tokenizer: lower case, without diacritics."""
    return "".join(c for c in unicodedata.normalize("NFKD", term.lower()) if not unicodedata.combining(c))
