"""Grounding with Google Search: Gemini searches, writes a text, and cites a page for each sentence.

Results are built from the citations, not from the free text: one hit per page, whose snippet is the sentences that cite
it. These sentences are written by a language model, so the model is declared with every result. Pages are cited by a
redirecting address of Google's. It is resolved here (guarded like every fetch), so that web_search and readers get the
page's address.

See https://ai.google.dev/gemini-api/docs/google-search.
"""

import asyncio
from typing import Any

from agentflow.tools.providers.provider import Hit, SearchResult, api_with_key, text_of
from agentflow.tools.result import ToolFailure
from agentflow.tools.web.safe_http import FetchPolicy, redirect_of

API = "https://generativelanguage.googleapis.com/v1beta"
MODEL = "gemini-flash-latest"
MAX_REPLY_TOKENS = 1024


class Gemini:
    """A `SearchProvider` with a language model."""

    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    site = "https://aistudio.google.com"

    def __init__(
        self, model: str = MODEL, api: str = API, seconds: float = 30.0, policy: FetchPolicy | None = None
    ) -> None:
        """Set the model, the address, the time limit, and the policy for resolving the cited addresses."""
        self._url = f"{api.rstrip('/')}/models/{model}:generateContent"
        self._model = model
        self._seconds = seconds
        self._policy = policy or FetchPolicy(seconds=5)

    async def search(self, query: str, k: int) -> SearchResult:
        """Search as `SearchProvider.search` does."""
        api = api_with_key(self._url, "x-goog-api-key", self.keys, self.site, self._seconds)
        reply = await api.post(
            {
                "contents": [{"role": "user", "parts": [{"text": query}]}],
                "tools": [{"google_search": {}}],
                "generationConfig": {"temperature": 0, "maxOutputTokens": MAX_REPLY_TOKENS},
            }
        )
        try:
            hits = _hits(reply)[:k]
            model = text_of(reply, "modelVersion") or self._model
        except (TypeError, AttributeError, IndexError, KeyError) as error:
            raise api.failure("gave an answer that could not be read") from error
        resolved = await asyncio.gather(*(self._resolved(hit) for hit in hits))
        return SearchResult(list(resolved), "gemini", model)

    async def _resolved(self, hit: Hit) -> Hit:
        """Return the hit with its address resolved, or unchanged if that fails."""
        try:
            return Hit(hit.title, await redirect_of(hit.url, self._policy) or hit.url, hit.snippet, hit.date)
        except ToolFailure:
            return hit


def _hits(reply: dict[str, Any]) -> list[Hit]:
    """Return the cited pages, the most cited first; none if the model answered without a search."""
    candidates = reply.get("candidates") or [{}]
    grounding = candidates[0].get("groundingMetadata") or {}
    pages = [chunk.get("web") or {} for chunk in grounding.get("groundingChunks") or []]
    sentences: dict[int, list[str]] = {number: [] for number in range(len(pages))}
    for support in grounding.get("groundingSupports") or []:
        for number in support.get("groundingChunkIndices") or []:
            sentences[number].append(text_of(support.get("segment") or {}, "text"))
    best = sorted(sentences, key=lambda number: -len(sentences[number]))
    return [
        Hit(text_of(pages[number], "title"), text_of(pages[number], "uri"), " ".join(sentences[number]))
        for number in best
        if text_of(pages[number], "uri")
    ]
