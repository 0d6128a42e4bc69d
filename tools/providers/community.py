"""Search wrappers of langchain-community, which is being retired: an optional extra, imported when one is chosen.

They differ only in their class and in their field names. They block and have no time limit, so the tool's limit
applies. An abandoned call still runs to its end in its thread.
"""

import asyncio
from typing import Any

from agentflow.tools.providers.provider import Hit, SearchResult, text_of
from agentflow.tools.quiet import without_warnings
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web.hosts import turn_at
from agentflow.version import pip_install

WRAPPERS = {
    "duckduckgo": "DuckDuckGoSearchAPIWrapper",
    "google": "GoogleSearchAPIWrapper",
    "searx": "SearxSearchWrapper",
}
"""Each wrapper reads its settings from the environment (`SEARX_HOST`, `GOOGLE_API_KEY` with `GOOGLE_CSE_ID`)."""


class Community:
    """A `SearchProvider` without a language model."""

    def __init__(self, name: str) -> None:
        """Set the wrapper by its name in `WRAPPERS`."""
        self._name = name

    async def search(self, query: str, k: int) -> SearchResult:
        """Search as `SearchProvider.search` does."""
        async with turn_at(f"community:{self._name}"):
            return await asyncio.to_thread(self._search, query, k)

    def _search(self, query: str, k: int) -> SearchResult:
        try:
            results = _wrapper(self._name).results(query, k)
            hits = [_hit(result) for result in results if "link" in result or "url" in result]
        except ToolFailure:
            raise
        except Exception as error:  # external code may raise any exception
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ToolFailure(ErrorClass.TOOL_ERROR, f"the search engine failed ({reason})") from error
        return SearchResult(hits[:k], f"community:{self._name}")


def _wrapper(name: str) -> Any:
    try:
        with without_warnings(DeprecationWarning):  # its retirement is known
            from langchain_community import utilities  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ToolFailure(
            ErrorClass.TOOL_ERROR,
            f"langchain-community is not installed; install it with: {pip_install('community')}",
        ) from error
    return getattr(utilities, WRAPPERS[name])()


def _hit(result: dict[str, Any]) -> Hit:
    url = text_of(result, "link") or text_of(result, "url")
    return Hit(text_of(result, "title"), url, text_of(result, "snippet"), text_of(result, "date"))
