"""Serper, which returns Google's own results: https://serper.dev."""

from agentflow.tools.providers.provider import Hit, SearchResult, api_with_key, text_of

API = "https://google.serper.dev/search"


class Serper:
    """A `SearchProvider` without a language model."""

    keys = ("SERPER_API_KEY",)
    site = "https://serper.dev"

    def __init__(self, api: str = API, seconds: float = 20.0) -> None:
        self._api = api
        self._seconds = seconds

    async def search(self, query: str, k: int) -> SearchResult:
        """Search as `SearchProvider.search` does."""
        api = api_with_key(self._api, "X-API-KEY", self.keys, self.site, self._seconds)
        reply = await api.post({"q": query, "num": k})
        try:
            hits = [
                Hit(text_of(one, "title"), text_of(one, "link"), text_of(one, "snippet"), text_of(one, "date"))
                for one in reply.get("organic", [])
            ]
        except (TypeError, AttributeError) as error:
            raise api.failure("gave an answer that could not be read") from error
        return SearchResult(hits[:k], "serper")
