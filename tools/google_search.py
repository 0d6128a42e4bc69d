"""The google_search tool: titles, addresses and snippets from a web search engine.

The engine is replaceable: any object with `search(query, k)` (`providers.provider`), or a built-in one by its spec
(`providers.choice`). Google's own search API takes no new customers; Serper and Gemini return Google's results.
"""

from functools import partial
from typing import Annotated

from langchain_core.tools import BaseTool

from agentflow.tools.card import UNKNOWN, tool_with_card
from agentflow.tools.providers.choice import AUTO, model_of, provider_of
from agentflow.tools.providers.provider import Hit, SearchProvider, SearchResult
from agentflow.tools.redaction import cut
from agentflow.tools.result import PROVIDER, ErrorClass, ToolFailure
from agentflow.tools.search_cache import SearchCache, cached

HITS = 5
MAX_SNIPPET = 400
"""Characters of a hit's snippet."""

CARD = {
    "description": "Searches the web and returns the titles, addresses and snippets of the best pages. "
    "Good for fresh facts and for finding the page that has the answer.",
    "limits": "Snippets only, which may be partial or wrong; read a page itself with web_search.",
    "examples": [{"query": "winner of the 2024 Nobel Prize in Physics"}],
    "side_effects": False,
}


def google_search(source: str | SearchProvider = AUTO, cache: SearchCache | None = None) -> BaseTool:
    """Return the tool for a search engine, or for one named by its spec. Raises ValueError for an unknown spec."""
    spec = source if isinstance(source, str) else type(source).__name__
    engine, model = (provider_of(source), model_of(source)) if isinstance(source, str) else (source, UNKNOWN)

    async def run(query: Annotated[str, "What to search for, in a few words."]) -> tuple[str, dict[str, str]]:
        query = " ".join(query.split())
        found = await cached(cache, SearchResult, "google_search", spec, query, partial(engine.search, query, HITS))
        if not found.hits:
            raise ToolFailure(ErrorClass.EMPTY_RESULT, f'nothing was found for "{query}"')
        lines = [_describe(number, hit) for number, hit in enumerate(found.hits, start=1)]
        return "\n".join(lines), {PROVIDER: found.declared()}

    return tool_with_card("google_search", CARD, model, run, response_format="content_and_artifact")


def _describe(number: int, hit: Hit) -> str:
    snippet = cut(" ".join(hit.snippet.split()), MAX_SNIPPET, "")
    date = f" ({hit.date})" if hit.date else ""
    return f"{number}. {' '.join(hit.title.split())}{date}\n{hit.url}\n{snippet}"
