"""google_search: titles, addresses and snippets from a web search engine.

The engine is replaceable: anything with `search(query, k) -> list[Hit]`. The default is Tavily, since Google's own
search API takes no new customers.
"""

import os
from dataclasses import dataclass
from typing import Protocol

import httpx
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from agentflow.tools.result import ErrorClass, ToolFailure

KEY = "TAVILY_API_KEY"
"""Environment variable with the key; read at each call, so that it can be set or changed while a server runs."""
HITS = 5
MAX_SNIPPET = 400
"""Characters of a hit's snippet."""

CARD = {
    "description": "Searches the web and returns the titles, addresses and snippets of the best pages. "
    "Good for fresh facts and for finding the page that has the answer.",
    "limits": "Snippets only, which may be partial or wrong; read a page itself with web_search.",
    "examples": [{"query": "winner of the 2024 Nobel Prize in Physics"}],
}


class Arguments(BaseModel):
    """Arguments of google_search."""

    query: str = Field(description="What to search for, in a few words.")


@dataclass(frozen=True)
class Hit:
    """One result of a search engine."""

    title: str
    url: str
    snippet: str
    date: str = ""
    """When it was published, as the engine says it."""


class SearchProvider(Protocol):
    """A search engine."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """Up to `k` hits, best first. Raises ToolFailure."""
        ...


class TavilySearch:
    """Tavily's search, https://docs.tavily.com."""

    def __init__(self, api_base_url: str | None = None, seconds: float = 20.0) -> None:
        self._api_base_url = api_base_url
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        """As `SearchProvider.search`."""
        # Imported on first use: a run without web search does not pay for it.
        import tavily  # type: ignore[import-untyped]
        from tavily import errors

        key = os.environ.get(KEY)
        if not key:
            raise _failure(f"google_search needs a key: set {KEY} to one from https://tavily.com")
        try:
            async with tavily.AsyncTavilyClient(api_key=key, api_base_url=self._api_base_url) as client:
                reply = await client.search(query, max_results=k, timeout=self._seconds)
            return [_hit(result) for result in reply["results"]]
        except (errors.InvalidAPIKeyError, errors.ForbiddenError) as error:
            raise _failure(f"the search engine refused the key; check {KEY}") from error
        except errors.UsageLimitExceededError as error:
            raise _failure("the search engine's usage limit is reached; wait, or use another key") from error
        except errors.BadRequestError as error:
            raise _failure(f"the search engine refused the query: {error}") from error
        except errors.TimeoutError as error:
            raise ToolFailure(ErrorClass.TIMEOUT, "the search engine did not answer in time") from error
        except httpx.HTTPStatusError as error:
            raise _failure(f"the search engine answered with HTTP {error.response.status_code}") from error
        except httpx.HTTPError as error:
            raise _failure(f"the search engine could not be reached ({type(error).__name__})") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _failure("the search engine's answer could not be read") from error


def google_search(provider: SearchProvider | None = None) -> BaseTool:
    """The tool; `provider` defaults to Tavily."""
    engine = provider or TavilySearch()

    async def run(query: str) -> str:
        hits = await engine.search(query, HITS)
        if not hits:
            raise ToolFailure(ErrorClass.EMPTY_RESULT, f'nothing was found for "{query}"')
        return "\n".join(_describe(number, hit) for number, hit in enumerate(hits, start=1))

    return StructuredTool.from_function(
        coroutine=run,
        name="google_search",
        description=str(CARD["description"]),
        args_schema=Arguments,
        metadata={"agentflow": CARD},
    )


def _hit(result: dict[str, object]) -> Hit:
    title, url, snippet = (str(result.get(field) or "") for field in ("title", "url", "content"))
    return Hit(title, url, snippet, str(result.get("published_date") or ""))


def _describe(number: int, hit: Hit) -> str:
    snippet = " ".join(hit.snippet.split())[:MAX_SNIPPET]
    date = f" ({hit.date})" if hit.date else ""
    return f"{number}. {' '.join(hit.title.split())}{date}\n{hit.url}\n{snippet}"


def _failure(message: str) -> ToolFailure:
    return ToolFailure(ErrorClass.TOOL_ERROR, message)
