"""What a site's robots.txt forbids (RFC 9309), by Protego, which Scrapy keeps.

A robots.txt that the site does not have forbids nothing; one that it cannot give at the moment forbids everything.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from protego import Protego

MAX_BYTES = 500 << 10
"""What a crawler has to read of a robots.txt, at least (RFC 9309, 2.5)."""
KEPT_SECONDS = 24 * 3600
UNAVAILABLE_SECONDS = 60
"""Until a site that could not give its robots.txt is asked again."""
KEPT = 1000
"""Sites whose rules are remembered."""


@dataclass(frozen=True)
class _Rules:
    """Of one site."""

    rules: "Protego | None"
    """None if there are none to be had, which forbids everything."""
    status: int
    until: float


_kept: dict[str, _Rules] = {}


async def problem(url: httpx.URL, user_agent: str, client: httpx.AsyncClient) -> str | None:
    """Why `url` may not be fetched; None if it may. `client` fetches the robots.txt; what it raises goes through."""
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
    from protego import Protego  # paid on first use

    async with client.stream("GET", f"{site}/robots.txt") as response:
        status, body = response.status_code, bytearray()
        if status == 200:
            async for chunk in response.aiter_raw(1 << 16):
                body += chunk
                if len(body) >= MAX_BYTES:
                    break
    if status >= 500:
        return _Rules(None, status, time.monotonic() + UNAVAILABLE_SECONDS)
    rules = await asyncio.to_thread(Protego.parse, body[:MAX_BYTES].decode("utf-8", "replace"))
    return _Rules(rules, status, time.monotonic() + KEPT_SECONDS)


def forget() -> None:
    """Forgets all rules, so that the next request asks again."""
    _kept.clear()
