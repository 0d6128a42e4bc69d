"""What google_search asks: a search engine that gives titles, addresses, snippets and dates."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentflow.tools.result import ErrorClass, ToolFailure


@dataclass(frozen=True)
class Hit:
    """One result of a search engine."""

    title: str
    url: str
    snippet: str
    date: str = ""
    """When it was published, as the engine says it."""


@dataclass(frozen=True)
class SearchResult:
    """What a search engine found."""

    hits: list[Hit]
    """Best first."""
    provider: str
    """Who searched."""
    model: str = ""
    """The language model that chose the pages and wrote the snippets, as its server names it; empty if none did."""

    def declared(self) -> str:
        """The provider, and the language model behind it if there is one: goes into every result and evaluation."""
        return f"{self.provider} ({self.model})" if self.model else self.provider


def model_in(declared: str) -> str:
    """The language model in what `SearchResult.declared` says; empty if there is none."""
    match = re.fullmatch(r"[\w:.-]+ \((.+)\)", declared)
    return match[1] if match else ""


class SearchProvider(Protocol):
    """A search engine."""

    async def search(self, query: str, k: int) -> SearchResult:
        """Up to `k` hits. Raises ToolFailure."""
        ...


def key_in(variables: Sequence[str]) -> str:
    """The first key that the environment has; empty if none. Read at each call: it may be set while a server runs."""
    return next((key for name in variables if (key := os.environ.get(name, "").strip())), "")


def key_needed(variables: Sequence[str], site: str) -> str:
    """The key in the environment. Raises ToolFailure, with what to do, if there is none."""
    if key := key_in(variables):
        return key
    raise ToolFailure(ErrorClass.TOOL_ERROR, f"google_search needs a key: set {variables[0]} to one from {site}")


def text_of(record: Any, field: str) -> str:
    """A field of an engine's record as text; empty if it is absent or not a text."""
    value = record.get(field)
    return value if isinstance(value, str) else ""
