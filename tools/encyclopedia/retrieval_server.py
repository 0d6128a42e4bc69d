"""A search engine over HTTP with the protocol of retrieval servers for training, such as Search-R1's.

`POST URL {"queries": [...], "topk": k, "return_scores": true}` is answered by `{"result": [[hit, ...], ...]}`, with one
list per query. A hit is `{"document": {...}, "score": x}` or the document itself. A document has its passage in
"contents" (its first line is the title, in quotation marks) or in "title" and "text". A server that already runs for
training can be used unchanged.
"""

from typing import Any

import httpx

from agentflow.tools.encyclopedia.encyclopedia import Article, Found
from agentflow.tools.web.json_api import JsonApi

AT_A_TIME = 64
"""Concurrent requests. The server is the user's own, and made for requests of hundreds of rollouts."""


class RetrievalServer:
    """An `Encyclopedia` of passages, which are shown in full."""

    def __init__(self, url: str, seconds: float = 20.0) -> None:
        """Set the address that takes the POST, such as http://127.0.0.1:8000/retrieve."""
        self._api = JsonApi(
            url,
            f"the retrieval server at {httpx.URL(url).netloc.decode()}",
            seconds=seconds,
            hint="is it running?",
            at_a_time=AT_A_TIME,
        )

    async def find(self, name: str, k: int) -> Found:
        """Return passages as `Encyclopedia.find` does; none is an exact match."""
        reply = await self._api.post({"queries": [name], "topk": k, "return_scores": True})
        try:
            pages = [_page(hit.get("document", hit)) for hit in reply["result"][0]]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise self._api.failure("gave an answer that could not be read") from error
        return Found(None, pages[:k], passages=True)


def _page(document: dict[str, Any]) -> Article:
    if "contents" not in document:
        return Article(str(document["title"]), str(document["text"]))
    title, text = titled(str(document["contents"]))
    return Article(title, text)


def titled(contents: str) -> tuple[str, str]:
    """Split a passage whose first line is its title, in quotation marks, into title and text."""
    title, _, text = contents.partition("\n")
    return title.strip().strip('"'), text.strip()
