"""Tavily, through its own client: https://docs.tavily.com."""

from urllib.parse import urlsplit

import httpx

from agentflow.tools.providers.provider import Hit, SearchResult, key_needed, text_of
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web.hosts import turn_at


class Tavily:
    """A `SearchProvider` without a language model: `include_answer` stays off."""

    keys = ("TAVILY_API_KEY",)
    site = "https://tavily.com"

    def __init__(self, api_base_url: str | None = None, seconds: float = 20.0) -> None:
        self._api_base_url = api_base_url
        self._seconds = seconds

    async def search(self, query: str, k: int) -> SearchResult:
        """Search as `SearchProvider.search` does."""
        # Imported on first use, so that a run without web search does not load it.
        import tavily  # type: ignore[import-untyped]
        from tavily import errors

        key = key_needed(self.keys, self.site)
        host = urlsplit(self._api_base_url or self.site).netloc
        try:
            async with turn_at(host), tavily.AsyncTavilyClient(api_key=key, api_base_url=self._api_base_url) as client:
                reply = await client.search(query, max_results=k, timeout=self._seconds)
            return SearchResult([_hit(result) for result in reply["results"]][:k], "tavily")
        except (errors.InvalidAPIKeyError, errors.ForbiddenError) as error:
            raise _failure(f"the search engine refused the key; check {self.keys[0]}") from error
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


def _hit(result: dict[str, object]) -> Hit:
    title, url, snippet, date = (text_of(result, field) for field in ("title", "url", "content", "published_date"))
    return Hit(title, url, snippet, date)


def _failure(message: str) -> ToolFailure:
    return ToolFailure(ErrorClass.TOOL_ERROR, message)
