"""Where wikipedia_search finds articles: one interface, and the local encyclopedia behind it.

A local corpus is the path of an index (`agentflow corpus build`), or a name that an installed package provides under
the entry point group `agentflow.corpora`: a callable without arguments that returns the path, and may build it first.
"""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from agentflow.tools.encyclopedia.corpus import Corpus, CorpusError
from agentflow.tools.result import ErrorClass, ToolFailure

GROUP = "agentflow.corpora"


@dataclass(frozen=True)
class Page:
    """An article."""

    title: str
    text: str
    ambiguous: bool = False
    """It only lists what its title may mean."""


@dataclass(frozen=True)
class Found:
    """What an encyclopedia has for a name."""

    exact: Page | None
    """The page of that title."""
    closest: list[Page]
    """The best other pages, best first."""
    passages: bool = False
    """They are passages, short enough to be shown whole, rather than articles."""


class Encyclopedia(Protocol):
    """A provider of articles."""

    async def find(self, name: str, k: int) -> Found:
        """The page titled `name` and up to `k` others. Raises ToolFailure."""
        ...


class LocalEncyclopedia:
    """A corpus on this machine, opened at the first look-up."""

    def __init__(self, corpus: str) -> None:
        """`corpus` is a path or the name of a provider."""
        self._corpus = corpus

    async def find(self, name: str, k: int) -> Found:
        """As `Encyclopedia.find`; other pages are looked for only if none has the title."""
        return await asyncio.to_thread(self._find, name, k)

    def _find(self, name: str, k: int) -> Found:
        try:
            corpus = _open(self._corpus)
        except CorpusError as error:
            raise ToolFailure(ErrorClass.TOOL_ERROR, str(error)) from error
        if page := corpus.page(name):
            return Found(Page(page.title, page.text), [])
        return Found(None, [Page(hit.title, hit.text) for hit in corpus.search(name, k)])


@lru_cache(maxsize=16)
def _open(corpus: str) -> Corpus:
    """The corpus, opened once per process and kept open."""
    installed = provider(corpus)
    return Corpus(installed.load()() if installed else corpus)


def provider(corpus: str) -> EntryPoint | None:
    """The installed provider of that name."""
    return next(iter(entry_points(group=GROUP, name=corpus)), None)
