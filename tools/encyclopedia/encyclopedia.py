"""The interface of article sources for wikipedia_search, and the local encyclopedia.

A local corpus is the path of an index (`agentflow corpus build`), or a name that an installed package provides under
the entry point group `agentflow.corpora`. The entry point is a callable without arguments that returns the path, and
may build the index first.
"""

import asyncio
import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError
from agentflow.tools.result import ErrorClass, ToolFailure

GROUP = "agentflow.corpora"


@dataclass(frozen=True)
class Article:
    """An article."""

    title: str
    text: str
    ambiguous: bool = False
    """True if it is a disambiguation page."""


@dataclass(frozen=True)
class Found:
    """The results of an encyclopedia for a name."""

    exact: Article | None
    """The page with that title."""
    closest: list[Article]
    """The best other pages, best first."""
    passages: bool = False
    """True if the results are passages, short enough to be shown in full, instead of articles."""


class Encyclopedia(Protocol):
    """A source of articles."""

    async def find(self, name: str, k: int) -> Found:
        """Return the page titled `name` and up to `k` others. Raises ToolFailure."""


class LocalEncyclopedia:
    """A local corpus, opened at the first lookup."""

    def __init__(self, corpus: str) -> None:
        """Set the corpus: a path or the name of a provider."""
        self._corpus = corpus

    async def find(self, name: str, k: int) -> Found:
        """Return pages as `Encyclopedia.find` does. Other pages are searched only if none has the title."""
        return await asyncio.to_thread(self._find, name, k)

    def _find(self, name: str, k: int) -> Found:
        try:
            corpus = _open(self._corpus)
        except CorpusError as error:
            raise ToolFailure(ErrorClass.TOOL_ERROR, str(error)) from error
        passages = is_of_passages(self._corpus)
        titled = [Article(page.title, page.text) for page in corpus.pages(name, k)]
        if titled and not passages:
            return Found(titled[0], [])
        closest = titled or [Article(hit.title, hit.text) for hit in corpus.search(name, k)]
        return Found(None, closest, passages=passages)


def is_of_passages(corpus: str) -> bool:
    """Return whether the texts of a local corpus are passages; False if it cannot be read, as its lookups then say."""
    try:
        return not provider(corpus) and _open(corpus).is_of_passages
    except (CorpusError, sqlite3.DatabaseError):
        return False


@lru_cache(maxsize=16)
def _open(corpus: str) -> Corpus:
    """Return the corpus, opened once per process and kept open."""
    installed = provider(corpus)
    return Corpus(installed.load()() if installed else corpus)


def provider(corpus: str) -> EntryPoint | None:
    """Return the installed provider of that name."""
    return next(iter(entry_points(group=GROUP, name=corpus)), None)
