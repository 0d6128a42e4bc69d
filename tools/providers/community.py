"""Search wrappers of langchain-community, which is in sunset: an optional extra, imported when one is chosen.

They differ only in their class and in the names of the fields. They block and have no time limit of their own, so that
the tool's holds; a call that is given up ends in its thread.
"""

import asyncio
import warnings
from typing import Any

from agentflow.tools.providers.provider import Hit, SearchResult, text_of
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web.hosts import turn_at

WRAPPERS = {
    "duckduckgo": "DuckDuckGoSearchAPIWrapper",
    "google": "GoogleSearchAPIWrapper",
    "searx": "SearxSearchWrapper",
}
"""Each reads its own settings from the environment (`SEARX_HOST`, `GOOGLE_API_KEY` with `GOOGLE_CSE_ID`)."""


class Community:
    """A `SearchProvider`. No language model is asked."""

    def __init__(self, name: str) -> None:
        """`name` is one of `WRAPPERS`."""
        self._name = name

    async def search(self, query: str, k: int) -> SearchResult:
        """As `SearchProvider.search`."""
        async with turn_at(f"community:{self._name}"):
            return await asyncio.to_thread(self._search, query, k)

    def _search(self, query: str, k: int) -> SearchResult:
        try:
            results = _wrapper(self._name).results(query, k)
            hits = [_hit(result) for result in results if "link" in result or "url" in result]
        except ToolFailure:
            raise
        except Exception as error:  # the boundary to foreign code, which may raise anything
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise ToolFailure(ErrorClass.TOOL_ERROR, f"the search engine failed ({said})") from error
        return SearchResult(hits[:k], f"community:{self._name}")


def _wrapper(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that it is in sunset is known
            from langchain_community import utilities  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ToolFailure(
            ErrorClass.TOOL_ERROR,
            "langchain-community is not installed; install it with: pip install 'agentflow-langgraph[community]'",
        ) from error
    return getattr(utilities, WRAPPERS[name])()


def _hit(result: dict[str, Any]) -> Hit:
    url = text_of(result, "link") or text_of(result, "url")
    return Hit(text_of(result, "title"), url, text_of(result, "snippet"), text_of(result, "date"))
