"""Wikipedia through the `wikipedia` package, for comparisons with agents that use it.

The package is from 2014, and its faults are worked around here. It is queried by exact title, since its suggestions
turn "dog" into "frog". Its requests, which have no timeout, no status check and no waiting, are replaced by `JsonApi`.
Its cache, which never expires, is bypassed. Its HTML is parsed by an explicit parser. Its errors are converted to those
of this package. It needs several requests per lookup, where the MediaWiki provider needs one.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

from agentflow.tools.encyclopedia.encyclopedia import Article, Found
from agentflow.tools.encyclopedia.mediawiki import MAX_QUERY, MediaWiki
from agentflow.tools.web.hosts import AT_A_TIME

_threads = ThreadPoolExecutor(max_workers=AT_A_TIME, thread_name_prefix="wikipedia")
"""As many lookups at a time as there are requests to one host."""


class WikipediaPackage(MediaWiki):
    """A MediaWiki that the package asks. It has one server in a process: that of the last lookup."""

    async def find(self, name: str, k: int) -> Found:
        """Return pages as `Encyclopedia.find` does."""
        try:
            return await asyncio.get_running_loop().run_in_executor(_threads, self._find, name[:MAX_QUERY], k)
        except (KeyError, IndexError, TypeError, AttributeError, AssertionError) as error:
            raise self._api.failure("gave an answer that could not be read") from error

    def _find(self, name: str, k: int) -> Found:
        package = _mended_package()
        package._wiki_request = self._request
        if not name.strip():
            return Found(None, [])
        try:
            return _by_title(package, name, k) or Found(None, _pages(package, package.search.fn(name, results=k), k))
        except package.exceptions.WikipediaException as error:
            raise self._api.failure(f"refused the request ({getattr(error, 'error', error)})") from error

    def _request(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Make the package's request, on an event loop of the thread's own."""
        return asyncio.run(self._api.get({"format": "json", "action": "query", **parameters}))


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

    package.BeautifulSoup = partial(bs4.BeautifulSoup, features="html.parser")
    package.exceptions = exceptions
    return package
