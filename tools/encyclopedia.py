"""Where wikipedia_search finds articles: one interface, and the local encyclopedia behind it.

A local corpus is the path of an index (`corpus.Corpus.build`), or a name that an installed package provides under the
entry point group `agentflow.corpora`: a callable without arguments that returns the path, and may build it first.
"""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from agentflow.tools.corpus import Corpus, CorpusError
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
    provider = _provider(corpus)
    return Corpus(provider.load()() if provider else corpus)


def _provider(corpus: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=corpus)), None)


def missing(corpus: str) -> str | None:
    """One line on what to do if there is no such corpus; None if there is."""
    if _provider(corpus) or Path(corpus).is_file():
        return None
    known = ", ".join(["live", *sorted(provider.name for provider in entry_points(group=GROUP))])
    return f"there is no corpus '{corpus}': use the path of an index built with Corpus.build, or one of {known}"
