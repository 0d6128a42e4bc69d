"""The rules of a site's robots.txt (RFC 9309), parsed by Protego, which Scrapy maintains.

A missing robots.txt forbids nothing; one that is temporarily unavailable forbids everything.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from agentflow.tools.web.hosts import beginning

if TYPE_CHECKING:
    from protego import Protego

MAX_BYTES = 500 << 10
"""Bytes of a robots.txt that a crawler has to read at least (RFC 9309, 2.5)."""
KEPT_SECONDS = 24 * 3600
UNAVAILABLE_SECONDS = 60
"""Seconds after which an unavailable robots.txt is requested again."""
KEPT = 1000
"""Maximum number of sites whose rules are cached."""


@dataclass(frozen=True)
class _Rules:
    """The rules of one site."""

    rules: "Protego | None"
    """None if robots.txt is unavailable, which forbids everything."""
    status: int
    until: float


_kept: dict[str, _Rules] = {}


async def problem(url: httpx.URL, user_agent: str, client: httpx.AsyncClient) -> str | None:
    """Return why `url` may not be fetched, or None if it may. `client` fetches robots.txt; its errors propagate."""
    site = f"{url.scheme}://{url.netloc.decode('ascii')}"
    known = _kept.get(site)
    if known is None or known.until < time.monotonic():
        known = await _fetched(site, client)
        _kept.pop(site, None)
        _kept[site] = known
        if len(_kept) > KEPT:
            del _kept[next(iter(_kept))]
    if known.rules is None:
        return f"{url.host} forbids robots while its robots.txt is not to be had (HTTP {known.status})"
    allowed = await asyncio.to_thread(known.rules.can_fetch, str(url), user_agent)
    return None if allowed else f"{url.host} forbids robots this page"


async def _fetched(site: str, client: httpx.AsyncClient) -> _Rules:
    from protego import Protego  # imported on first use

    async with client.stream("GET", f"{site}/robots.txt") as response:
        status = response.status_code
        body = await beginning(response, MAX_BYTES) if status == 200 else b""
    if status >= 500:
        return _Rules(None, status, time.monotonic() + UNAVAILABLE_SECONDS)
    rules = await asyncio.to_thread(Protego.parse, body.decode("utf-8", "replace"))
    return _Rules(rules, status, time.monotonic() + KEPT_SECONDS)
