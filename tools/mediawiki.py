"""The live Wikipedia, or any MediaWiki with the TextExtracts extension, in one request per look-up.

Follows the API etiquette: a user agent that names the project, `maxlag`, and a server that asks to wait is given that
time if it is short, else the look-up fails at once and says so.
https://www.mediawiki.org/wiki/API:Etiquette, https://www.mediawiki.org/wiki/Manual:Maxlag_parameter
"""

import asyncio
from typing import Any

import httpx

from agentflow import __version__
from agentflow.tools.encyclopedia import Found, Page
from agentflow.tools.result import ErrorClass, ToolFailure

WIKIPEDIA = "https://en.wikipedia.org/w/api.php"
USER_AGENT = f"agentflow-langgraph/{__version__} (wikipedia_search) httpx/{httpx.__version__}"
ATTEMPTS = 3
MAX_WAIT = 5.0
"""Longest wait, in seconds, that a server may ask for."""
MAX_QUERY = 300
"""Characters; CirrusSearch refuses longer queries."""


class MediaWiki:
    """An `Encyclopedia` over the Action API."""

    def __init__(self, api: str = WIKIPEDIA, seconds: float = 10.0) -> None:
        """`api` is the address of api.php; `seconds` bounds the connecting and each read."""
        self._api = api
        self._seconds = seconds

    async def find(self, name: str, k: int) -> Found:
        """As `Encyclopedia.find`. A redirect's title counts as its page's."""
        return _found(await self._get(_parameters(name, k)), name, k)

    async def _get(self, parameters: dict[str, str | int]) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=self._seconds, headers={"User-Agent": USER_AGENT}) as client:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    response = await client.get(self._api, params=parameters)
                    reply = response.json() if response.status_code == 200 else {}
                except httpx.TimeoutException as error:
                    raise ToolFailure(ErrorClass.TIMEOUT, f"{self._host} did not answer in time") from error
                except httpx.HTTPError as error:
                    raise self._failure(f"could not be reached ({type(error).__name__})") from error
                except ValueError as error:
                    raise self._failure("did not answer with JSON") from error
                if not _asks_to_wait(response, reply):
                    break
                wait = _seconds_to_wait(response)
                if wait > MAX_WAIT or attempt == ATTEMPTS:
                    raise self._failure(f"is busy and asks to wait {wait:g} seconds")
                await asyncio.sleep(wait)
        if response.status_code != 200:
            raise self._failure(f"answered with HTTP {response.status_code}")
        if not isinstance(reply, dict):
            raise self._failure("did not answer with a JSON object")
        if "error" in reply:
            raise self._failure(f"refused the request ({reply['error']})")
        return reply

    @property
    def _host(self) -> str:
        return httpx.URL(self._api).host

    def _failure(self, what: str) -> ToolFailure:
        return ToolFailure(ErrorClass.TOOL_ERROR, f"{self._host} {what}; the corpus may also be a local index")


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


def _asks_to_wait(response: httpx.Response, reply: Any) -> bool:
    lagged = isinstance(reply, dict) and isinstance(reply.get("error"), dict) and reply["error"].get("code") == "maxlag"
    return lagged or response.status_code in (429, 503)


def _seconds_to_wait(response: httpx.Response) -> float:
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 1.0


def _found(reply: dict[str, Any], name: str, k: int) -> Found:
    query = reply.get("query", {})
    records = sorted(query.get("pages", []), key=lambda record: record.get("index", 0))
    pages = [
        Page(record["title"], record.get("extract", "").strip(), "disambiguation" in record.get("pageprops", {}))
        for record in records
        if "missing" not in record
    ]
    titles = {_key(name)} | {_key(r["to"]) for r in query.get("redirects", []) if _key(r["from"]) == _key(name)}
    exact = next((page for page in pages if _key(page.title) in titles), None)
    return Found(exact, [page for page in pages if page is not exact][:k])


def _key(title: str) -> str:
    return " ".join(title.replace("_", " ").split()).casefold()
