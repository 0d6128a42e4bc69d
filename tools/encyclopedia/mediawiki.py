"""The live Wikipedia, or any MediaWiki with the TextExtracts extension, at one request per lookup.

It follows the API etiquette: a user agent that names the project, and `maxlag`. If the server asks to wait, a short
wait is granted, and otherwise the lookup fails at once with a message. Wikipedia's search covers full texts; that of a
plain MediaWiki without CirrusSearch covers titles only.

See https://www.mediawiki.org/wiki/API:Etiquette and https://www.mediawiki.org/wiki/Manual:Maxlag_parameter.
"""

from typing import Any

import httpx

from agentflow.tools.encyclopedia.encyclopedia import Article, Found
from agentflow.tools.web.json_api import JsonApi
from agentflow.version import __version__

WIKIPEDIA = "https://en.wikipedia.org/w/api.php"
USER_AGENT = f"agentflow-langgraph/{__version__} (wikipedia_search) httpx/{httpx.__version__}"
MAX_QUERY = 300
"""Maximum number of characters; CirrusSearch refuses longer queries."""


class MediaWiki:
    """An `Encyclopedia` over the Action API."""

    def __init__(self, api: str = WIKIPEDIA, seconds: float = 10.0) -> None:
        """Set the address of api.php, and the time limit for connecting and for each read."""
        agent, hint = {"User-Agent": USER_AGENT}, "the corpus may also be a local index"
        self._api = JsonApi(api, httpx.URL(api).host, agent, seconds, hint=hint, busy=_lagged)

    async def find(self, name: str, k: int) -> Found:
        """Return pages as `Encyclopedia.find` does. A redirect's title counts as that of its page."""
        reply = await self._api.get(_parameters(name, k))
        if "error" in reply:
            raise self._api.failure(f"refused the request ({reply['error']})")
        try:
            return _found(reply, name, k)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._api.failure("gave an answer that could not be read") from error


def _parameters(name: str, k: int) -> dict[str, str | int]:
    return {
        "action": "query",
        "format": "json",
        "formatversion": 2,
        "generator": "search",
        "gsrsearch": name[:MAX_QUERY],
        "gsrlimit": k + 1,  # the exact page and k others
        "redirects": 1,
        "prop": "extracts|pageprops",
        "exintro": 1,
        "explaintext": 1,
        "exlimit": "max",
        "ppprop": "disambiguation",
        "maxlag": 5,
    }


def _lagged(reply: Any) -> bool:
    error = reply.get("error") if isinstance(reply, dict) else None
    return isinstance(error, dict) and error.get("code") == "maxlag"


def _found(reply: dict[str, Any], name: str, k: int) -> Found:
    query = reply.get("query", {})
    records = sorted(query.get("pages", []), key=lambda record: record.get("index", 0))
    pages = [
        Article(record["title"], record.get("extract", "").strip(), "disambiguation" in record.get("pageprops", {}))
        for record in records
        if "missing" not in record
    ]
    titles = {_key(name)} | {_key(r["to"]) for r in query.get("redirects", []) if _key(r["from"]) == _key(name)}
    exact = next((page for page in pages if _key(page.title) in titles), None)
    return Found(exact, [page for page in pages if page is not exact][:k])


def _key(title: str) -> str:
    return " ".join(title.replace("_", " ").split()).casefold()
