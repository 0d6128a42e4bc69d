"""Limits on the load of external servers: few concurrent requests, and waiting as long as they ask to, within a limit.

All HTTP clients of the tools share them. The limit on concurrency is per event loop, on which all requests of a run are
made.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx

AT_A_TIME = 4
"""Concurrent requests to one host."""
ATTEMPTS = 3
MAX_WAIT = 5.0
"""Longest wait in seconds that a server may ask for; beyond it, the request is given up."""
PAUSE = 0.5
"""Seconds before another attempt if the server names no time."""
BUSY = frozenset({429, 502, 503, 504})
"""Status codes after which the same request may succeed. 500 is excluded, since it indicates a persistent fault."""

_Semaphores = WeakValueDictionary[tuple[str, int], asyncio.Semaphore]
_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, _Semaphores] = WeakKeyDictionary()


@asynccontextmanager
async def turn_at(host: str, at_a_time: int = AT_A_TIME) -> AsyncIterator[None]:
    """Wait until fewer than `at_a_time` other requests to `host` are in flight."""
    semaphores = _semaphores.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    semaphore = semaphores.setdefault((host, at_a_time), asyncio.Semaphore(at_a_time))
    async with semaphore:
        yield


async def beginning(response: httpx.Response, limit: int) -> bytes:
    """Return the body of a streamed response, of a longer one its first `limit` bytes."""
    body = bytearray()
    async for chunk in response.aiter_raw(1 << 16):
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    """Return the trusted certificates. They are read once, since reading takes longer than most requests."""
    return httpx.create_ssl_context()
