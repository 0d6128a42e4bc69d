"""A search engine over HTTP in the form that retrieval servers for training speak, as Search-R1's does.

`POST URL {"queries": [...], "topk": k, "return_scores": true}` is answered by `{"result": [[hit, ...], ...]}`, one list
for each query; a hit is `{"document": {...}, "score": x}` or the document itself, and a document has its passage in
"contents" (its first line the title, in quotation marks) or in "title" and "text". A server that runs for a training
run already serves this one too.
"""

from typing import Any

import httpx

from agentflow.tools.encyclopedia.encyclopedia import Found, Page
from agentflow.tools.web.json_api import JsonApi

AT_A_TIME = 64
"""Requests under way: the server is one's own, and there to be asked by hundreds of rollouts."""


class RetrievalServer:
    """An `Encyclopedia` of passages: what it finds is shown whole."""

    def __init__(self, url: str, seconds: float = 20.0) -> None:
        """`url` takes the POST, as in http://127.0.0.1:8000/retrieve."""
        self._api = JsonApi(
            url,
            f"the retrieval server at {httpx.URL(url).netloc.decode()}",
            seconds=seconds,
            hint="is it running?",
            at_a_time=AT_A_TIME,
        )

    async def find(self, name: str, k: int) -> Found:
        """As `Encyclopedia.find`; no page is exact."""
        reply = await self._api.post({"queries": [name], "topk": k, "return_scores": True})
        try:
            pages = [_page(hit.get("document", hit)) for hit in reply["result"][0]]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise self._api.failure("gave an answer that could not be read") from error
        return Found(None, pages[:k], passages=True)


def _page(document: dict[str, Any]) -> Page:
    if "contents" not in document:
        return Page(str(document["title"]), str(document["text"]))
    title, text = titled(str(document["contents"]))
    return Page(title, text)


def titled(contents: str) -> tuple[str, str]:
    """Title and text of a passage that has its title as its first line, in quotation marks."""
    title, _, text = contents.partition("\n")
    return title.strip().strip('"'), text.strip()
