"""HTTP requests to model servers: pooled connections, retries of temporary failures, and rate limits.

- *One connection pool per event loop.* A model is cached and used from several loops: `graph.ainvoke` runs on the
  caller's loop, `graph.invoke` on a background one, a test on a new one each time. A connection made on one loop fails
  on another, so each loop has its own pool, which is closed when the loop shuts down.
- *A cost that does not grow with concurrency.* The pools are aiohttp's. Each request and each reply of httpx searches
  all connections and all waiting requests, which takes most of a call's time from 100 concurrent calls on.
- *Retries only of temporary failures*: server errors and lost connections, but not a refused connection, a timeout or
  an empty account. A rate limit holds back all requests to a server together (`pace`).

The errors are those of the openai SDK, which does not retry them.
"""

import asyncio
import atexit
import json
import os
import random
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import openai
from yarl import URL

from agentflow.graph.models.context_length import is_overflow
from agentflow.graph.models.errors import out_of_credit
from agentflow.graph.models.pace import LONGEST, PACE
from agentflow.graph.models.spec import misconfigured
from agentflow.graph.models.streamed import events
from agentflow.tools.web.hosts import tls
from agentflow.tools.web.rate_limits import asked_to_wait

RETRIES = 2
"""Further attempts for a request that failed and may succeed later."""

CUT = "agentflow_cut"
"""Field of an event of ours, which follows those of a stream that has ended without [DONE]."""

MOST = 512
"""Maximum number of concurrent connections of an event loop, which leaves files for others. Further requests wait."""

ROLLOUT_HOST = "rollout"
"""Host of specs such as `vllm:base@http://rollout/v1`: the server that a training samples from. Its address, which
differs from start to start, is in the environment (`ROLLOUT_ADDRESS`) and not in the model, by whose settings recorded
responses are found again."""

ROLLOUT_ADDRESS = "AGENTFLOW_ROLLOUT_ADDRESS"
"""Environment variable that a training sets in its workers: host:port."""


@dataclass
class _Pool:
    """The connections of one event loop."""

    session: aiohttp.ClientSession
    closing: AsyncGenerator[None, None]
    """Closes the session with the loop."""


class Connections:
    """The connections of this process to model servers."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._lock = threading.Lock()
        atexit.register(self._close_at_exit)

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, limits: httpx.Timeout, *, stream: bool = False
    ) -> aiohttp.ClientResponse:
        """Return the response to a POST, which may be an error's. Its body is read unless a stream was asked for.

        Raises openai.APITimeoutError or openai.APIConnectionError if there is no response.
        """
        to, failures = _located(URL(url)), 0
        while True:
            sent = await PACE.keep(to.authority)
            try:
                response = await self._attempt(to, headers, body, limits, stream)
            except openai.APITimeoutError:
                raise
            except openai.APIConnectionError as error:
                if failures == RETRIES or isinstance(error.__cause__, aiohttp.ClientConnectorError):
                    raise  # a connection that was made and lost may be had again
                seconds = None
            else:
                if response.ok:
                    PACE.accepted(to.authority)
                if not await _is_repeatable(response):
                    return response
                seconds = asked_to_wait(response.headers, await response.text(errors="replace"))
                limited = response.status == 429 or (response.status in (503, 529) and seconds is not None)
                if limited and PACE.refused(to.authority, sent, seconds):
                    continue
                if limited or failures == RETRIES or (seconds or 0) > LONGEST:
                    return response
            await asyncio.sleep(0.5 * 2**failures * random.uniform(0.75, 1) if seconds is None else seconds)
            failures += 1

    async def _attempt(
        self, to: URL, headers: Mapping[str, str], body: bytes, limits: httpx.Timeout, stream: bool
    ) -> aiohttp.ClientResponse:
        pool = await self._pool()
        with openai_errors(to):
            response = await pool.session.post(
                to,
                headers=headers,
                data=body,
                timeout=aiohttp.ClientTimeout(sock_connect=limits.connect, sock_read=limits.read),
                allow_redirects=False,
                proxy=_proxy(to.origin()),
            )
            whole = response.status != 200 or response.content_type == "application/json" or not stream
            if whole and (stated := _stated(await response.read())) and response.ok:
                response.status = stated
        return response

    async def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        if pool := self._pools.get(loop):
            return pool
        with self._lock:
            ended = [self._pools.pop(known) for known in [*self._pools] if known.is_closed()]
        for pool in ended:
            await pool.session.close()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MOST, ssl=tls()), cookie_jar=aiohttp.DummyCookieJar()
        )
        pool = self._pools[loop] = _Pool(session, _closed_with_loop(session))
        await anext(pool.closing)
        return pool

    def _close_at_exit(self) -> None:
        """Close the pools of loops that nothing shuts down, such as the background loop, which aiohttp reports."""
        for loop, pool in self._pools.items():
            with suppress(RuntimeError, OSError, CancelledError):  # the loop or the connection ended meanwhile
                if loop.is_running():
                    asyncio.run_coroutine_threadsafe(pool.session.close(), loop).result(timeout=1)
                elif loop.is_closed():
                    asyncio.run(pool.session.close())
                else:
                    loop.run_until_complete(pool.session.close())


@lru_cache(maxsize=1)
def connections() -> Connections:
    """Return the connections that all models share."""
    return Connections()


class PooledClient(httpx.AsyncClient):
    """A client for the openai SDK that sends its requests over `connections`. The SDK retries none of them."""

    def __init__(self) -> None:
        super().__init__(verify=tls())

    async def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
        """Send a POST request. Raises as `Connections.post` does."""
        own = ("host", "connection", "accept-encoding", "content-length")
        headers = {name: value for name, value in request.headers.items() if name not in own}
        limits = httpx.Timeout(**request.extensions["timeout"])
        response = await connections().post(str(request.url), headers, request.content, limits, stream=stream)
        return await as_httpx(response, request, stream=stream)


async def as_httpx(response: aiohttp.ClientResponse, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
    """Return the response, decompressed, in the type of httpx. Its headers keep the SDK from retrying."""
    decoded = {name: value for name, value in response.headers.items() if name.lower() != "content-encoding"}
    whole = not stream or response.status != 200
    body: dict[str, Any] = {"content": events(await response.read())[-1]} if whole else {"stream": _Body(response)}
    return httpx.Response(response.status, headers={**decoded, "x-should-retry": "false"}, **body, request=request)


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with openai_errors(self._response.url):
            async for part in self._response.content.iter_any():
                yield part
        # Of a stream that is complete, the SDK reads no more than its [DONE].
        yield f'\n\ndata: {{"choices": [], "{CUT}": true}}\n\n'.encode()

    async def aclose(self) -> None:
        self._response.release()


@contextmanager
def openai_errors(url: URL) -> Iterator[None]:
    """Raise the openai SDK's errors for aiohttp's."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        kind = openai.APITimeoutError if isinstance(error, TimeoutError) else openai.APIConnectionError
        raise kind(request=httpx.Request("POST", str(url))) from error  # type: ignore[arg-type]


async def _is_repeatable(response: aiohttp.ClientResponse) -> bool:
    """Return whether the same request may succeed later. The server may say so itself, as OpenAI's does."""
    asked = response.headers.get("x-should-retry")
    if response.status == 429 and out_of_credit((await response.read()).decode(errors="replace")):
        return False
    return asked == "true" or (asked != "false" and (response.status in (408, 409, 429) or response.status >= 500))


def _stated(body: bytes) -> int | None:
    """Return the status of an error that a body holds, which proxies send with status 200; None if it holds none."""
    if b'"error"' not in body:
        return None
    with suppress(ValueError, RecursionError, TypeError, AttributeError, LookupError):
        found = json.loads(events(body)[-1])  # that of a stream is its last event
        choice = (found.get("choices") or [{}])[0]
        if error := found.get("error") or choice.get("error") or choice.get("finish_reason") == "error":
            code = str(error.get("code")) if isinstance(error, dict) else ""
            return int(code) if re.fullmatch(r"[45]\d\d", code) else 400 if is_overflow(str(error)) else 502
    return None


def _located(url: URL) -> URL:
    address = os.environ.get(ROLLOUT_ADDRESS) if url.host == ROLLOUT_HOST else None
    return URL(f"{url.scheme}://{address}{url.raw_path_qs}", encoded=True) if address else url


@lru_cache(maxsize=512)
def _proxy(server: URL) -> str | None:
    """Return the environment's proxy for a server. aiohttp would look it up in a thread, at every request.

    Raises ModelError for a SOCKS proxy, to which aiohttp would speak HTTP.
    """
    proxies = getproxies()
    proxy = None if proxy_bypass(str(server.host)) else proxies.get(server.scheme, proxies.get("all"))
    if proxy and proxy.lower().startswith("socks"):
        remedy = f"set {server.scheme.upper()}_PROXY to an HTTP proxy, or NO_PROXY to {server.host}"
        raise misconfigured("socks_proxy", f"no model is reached through the environment's SOCKS proxy; {remedy}")
    return proxy


async def _closed_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """Close `session` when the loop that starts this generator shuts down, since a loop closes its async generators
    last.
    """
    try:
        yield
    finally:
        await session.close()
