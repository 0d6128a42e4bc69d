"""The interface of search engines for google_search: titles, addresses, snippets and dates."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web.json_api import JsonApi


@dataclass(frozen=True)
class Hit:
    """One result of a search engine."""

    title: str
    url: str
    snippet: str
    date: str = ""
    """The date of publication, in the engine's own form."""


@dataclass(frozen=True)
class SearchResult:
    """The results of a search engine."""

    hits: list[Hit]
    """Best first."""
    provider: str
    """The name of the engine."""
    model: str = ""
    """The language model that chose the pages and wrote the snippets, as its server names it.

    Empty if there is none.
    """

    def declared(self) -> str:
        """Return the provider, with its language model if any, for results and evaluations."""
        return f"{self.provider} ({self.model})" if self.model else self.provider


def model_in(declared: str) -> str:
    """Return the language model in a value of `SearchResult.declared`, or "" if there is none."""
    match = re.fullmatch(r"[\w:.-]+ \((.+)\)", declared)
    return match[1] if match else ""


class SearchProvider(Protocol):
    """A search engine."""

    async def search(self, query: str, k: int) -> SearchResult:
        """Return up to `k` hits. Raises ToolFailure."""


def key_in(variables: Sequence[str]) -> str:
    """Return the first key in the environment, or "".

    It is read at each call, since it may be set while a server runs.
    """
    return next((key for name in variables if (key := os.environ.get(name, "").strip())), "")


def key_needed(variables: Sequence[str], site: str) -> str:
    """Return the key in the environment. Raises ToolFailure with the remedy if there is none."""
    if key := key_in(variables):
        return key
    raise ToolFailure(ErrorClass.TOOL_ERROR, f"google_search needs a key: set {variables[0]} to one from {site}")


def api_with_key(url: str, header: str, variables: Sequence[str], site: str, seconds: float) -> JsonApi:
    """Return an engine's API, which takes its key in `header`. Raises ToolFailure as `key_needed` does."""
    key, refused = key_needed(variables, site), f"refused the key; check {variables[0]}"
    return JsonApi(url, "the search engine", {header: key}, seconds, refused=refused)


def text_of(record: Any, field: str) -> str:
    """Return a field of an engine's record as text, or "" if it is absent or not a text."""
    value = record.get(field)
    return value if isinstance(value, str) else ""
