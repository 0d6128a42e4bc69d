"""A client for a JSON API over HTTP, such as a search engine's or Wikipedia's, with bounded requests and named
failures.

Only a busy server or a failed connection is retried; a timeout is not.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from agentflow.tools.json_codec import from_json
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web.hosts import AT_A_TIME, ATTEMPTS, BUSY, MAX_WAIT, PAUSE, beginning, tls, turn_at
from agentflow.tools.web.rate_limits import asked_to_wait

MAX_BYTES = 16 << 20
"""Maximum size of a reply."""

Parameters = Mapping[str, str | int]


@dataclass(frozen=True)
class JsonApi:
    """An address that answers with JSON objects."""

    url: str
    name: str
    """Name of the server in messages."""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0
    """Time limit for connecting and for each read."""
    hint: str = ""
    """The user's alternative, which ends the message of every failure except a timeout."""
    refused: str = ""
    """Message for 401 and 403, for an API that needs a key."""
    at_a_time: int = AT_A_TIME
    busy: Callable[[Any], bool] = lambda reply: False
    """Returns whether a reply with status 200 only asks to wait."""

    async def get(self, parameters: Parameters) -> dict[str, Any]:
        """Return the reply to a GET. Raises ToolFailure."""
        return await self._call("GET", params=dict(parameters))

    async def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a POST of `body` as JSON. Raises ToolFailure."""
        return await self._call("POST", json=dict(body))

    def failure(self, what: str) -> ToolFailure:
        """Return a failure of this API for its caller to raise: "NAME what"."""
        return ToolFailure(ErrorClass.TOOL_ERROR, f"{self.name} {what}{self.hint and f'; {self.hint}'}")

    async def _call(self, method: str, **options: Any) -> dict[str, Any]:
        try:
            async with (
                turn_at(httpx.URL(self.url).netloc.decode(), self.at_a_time),
                httpx.AsyncClient(
                    timeout=self.seconds, headers={"Accept-Encoding": "identity", **self.headers}, verify=tls()
                ) as client,
            ):
                reply = await self._patiently(client, client.build_request(method, self.url, **options))
        except httpx.TimeoutException as error:
            raise ToolFailure(ErrorClass.TIMEOUT, f"{self.name} did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.failure(f"could not be reached ({type(error).__name__})") from error
        if not isinstance(reply, dict):
            raise self.failure("did not answer with a JSON object")
        return reply

    async def _patiently(self, client: httpx.AsyncClient, request: httpx.Request) -> Any:
        """Return the reply, after retries where they can help."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response, reply = await self._send(client, request)
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            if response.status_code not in BUSY and not self.busy(reply):
                return reply
            wait = asked_to_wait(response.headers) or PAUSE
            if attempt == ATTEMPTS or wait > MAX_WAIT:
                break
            await asyncio.sleep(wait)
        raise self.failure(f"is busy and asks to wait {wait:g} seconds")

    async def _send(self, client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, Any]:
        """Return a response and its JSON body, or None for the body if the status asks to wait."""
        response = await client.send(request, stream=True)
        try:
            if response.status_code in BUSY:
                return response, None
            if response.status_code in (401, 403) and self.refused:
                raise self.failure(self.refused)
            if response.status_code != 200:
                raise self.failure(f"answered with HTTP {response.status_code}")
            return response, await self._json(response)
        finally:
            await response.aclose()

    async def _json(self, response: httpx.Response) -> Any:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise self.failure("answered in an encoding that it was not asked for")
        body = await beginning(response, MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise self.failure(f"answered with more than {MAX_BYTES >> 20} MiB")
        try:
            return from_json(body)
        except ValueError as error:
            raise self.failure("did not answer with JSON") from error
