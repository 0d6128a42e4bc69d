"""How other people's servers are treated: few requests at a time, and waiting as long as they ask to, if that is short.

Shared by everything here that speaks HTTP. A bound holds for one event loop, which is where the requests of a run are.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx

AT_A_TIME = 4
"""Requests under way to one host."""
ATTEMPTS = 3
MAX_WAIT = 5.0
"""Longest wait, in seconds, that a server may ask for; one that asks for longer is given up."""
PAUSE = 0.5
"""Seconds before another attempt where the server names none."""
BUSY = frozenset({429, 502, 503, 504})
"""Answers after which the same request may well succeed. 500 is a fault, which it would meet again."""

_Semaphores = WeakValueDictionary[tuple[str, int], asyncio.Semaphore]
_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, _Semaphores] = WeakKeyDictionary()


@asynccontextmanager
async def turn_at(host: str, at_a_time: int = AT_A_TIME) -> AsyncIterator[None]:
    """Waits until fewer than `at_a_time` others are at `host`."""
    semaphores = _semaphores.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    semaphore = semaphores.setdefault((host, at_a_time), asyncio.Semaphore(at_a_time))
    async with semaphore:
        yield


def seconds_to_wait(response: httpx.Response, otherwise: float = PAUSE) -> float:
    """What `Retry-After` asks for, as seconds or as a date (RFC 9110, 10.2.3)."""
    asked = response.headers.get("Retry-After", "").strip()
    if asked.isdecimal():
        return float(asked)
    try:
        at = parsedate_to_datetime(asked)
    except ValueError:
        return otherwise
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    """The certificates that are trusted; reading them takes longer than most requests, so they are read once."""
    return httpx.create_ssl_context()
