"""Wikipedia through the `wikipedia` package, for comparisons with agents that use it.

The package is from 2014, and its faults are worked around here. It is queried by exact title, since its suggestions
turn "dog" into "frog". Its requests, which have no timeout, no status check and no waiting, are replaced by `JsonApi`.
Its cache, which never expires, is bypassed. Its HTML is parsed by an explicit parser. Its errors are converted to those
of this package. It needs several requests per lookup, where the MediaWiki provider needs one.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from typing import Any

from agentflow.tools.encyclopedia.encyclopedia import Article, Found
from agentflow.tools.encyclopedia.mediawiki import MAX_QUERY, WIKIPEDIA, mediawiki_api
from agentflow.tools.web.json_api import JsonApi

Caller = tuple[JsonApi, asyncio.AbstractEventLoop]
_caller: ContextVar[Caller] = ContextVar("caller")
"""The lookup that runs in this thread.

The package keeps its settings in globals, which lookups would otherwise share.
"""
_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="wikipedia")
"""Separate from the event loop's own threads, which resolve host names for the requests that lookups wait for."""


class WikipediaPackage:
    """An `Encyclopedia`."""

    def __init__(self, api: str = WIKIPEDIA, seconds: float = 10.0) -> None:
        """Set the address and the time limit, as in `MediaWiki`."""
        self._api = mediawiki_api(api, seconds)

    async def find(self, name: str, k: int) -> Found:
        """Return pages as `Encyclopedia.find` does."""
        loop = asyncio.get_running_loop()
        _caller.set((self._api, loop))
        try:
            return await loop.run_in_executor(_threads, copy_context().run, _find, name[:MAX_QUERY], k)
        except (KeyError, IndexError, TypeError, AttributeError, AssertionError) as error:
            raise self._api.failure("gave an answer that could not be read") from error


def _find(name: str, k: int) -> Found:
    package = _mended_package()
    if not name.strip():
        return Found(None, [])
    try:
        return _by_title(package, name, k) or Found(None, _pages(package, package.search.fn(name, results=k), k))
    except package.exceptions.WikipediaException as error:
        raise _caller.get()[0].failure(f"refused the request ({getattr(error, 'error', error)})") from error


def _by_title(package: Any, name: str, k: int) -> Found | None:
    try:
        page = package.page(name, auto_suggest=False)
        return Found(Article(page.title, page.summary.strip()), [])
    except package.exceptions.DisambiguationError as meanings:
        return Found(Article(meanings.title, "", ambiguous=True), _pages(package, meanings.options, k))
    except package.exceptions.PageError:
        return None


def _pages(package: Any, titles: list[str], k: int) -> list[Article]:
    """Return the pages of the first `k` titles that exist."""
    pages: list[Article] = []
    for title in dict.fromkeys(titles):
        if len(pages) == k:
            break
        try:
            page = package.page(title, auto_suggest=False)
            pages.append(Article(page.title, page.summary.strip()))
        except package.exceptions.DisambiguationError:
            pages.append(Article(title, "", ambiguous=True))
        except package.exceptions.PageError:
            continue
    return pages


@lru_cache(maxsize=1)
def _mended_package() -> Any:
    import bs4
    import wikipedia.wikipedia as package  # type: ignore[import-untyped]
    from wikipedia import exceptions

    package._wiki_request = _request
    package.BeautifulSoup = partial(bs4.BeautifulSoup, features="html.parser")
    package.exceptions = exceptions
    return package


def _request(parameters: dict[str, Any]) -> dict[str, Any]:
    """Replace the package's request: make it on the caller's event loop and with its limits."""
    api, loop = _caller.get()
    asked = {"format": "json", "action": "query", **parameters}
    return asyncio.run_coroutine_threadsafe(api.get(asked), loop).result()
