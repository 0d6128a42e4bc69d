"""HTTP of the OpenAI-compatible endpoints: bodies of limited size, refusals, events, and clients that disconnect."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentflow.rl.micro import protocol

Body = TypeVar("Body", bound=BaseModel)
Answer = TypeVar("Answer")

HUNG_UP = 499
"""HTTP status of a reply whose client has disconnected."""


class Refused(Exception):
    """A request is rejected with an HTTP status."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def response(self) -> Response:
        """The response, which tells clients not to repeat the request, or when."""
        again = {"retry-after": "1"} if self.status == 429 else {"x-should-retry": "false"}
        return JSONResponse(protocol.error(str(self), self.code), self.status, again)


async def refuse(request: Request, refused: Exception) -> Response:
    """Answer a request that was refused: the handler of an app's `Refused`."""
    assert isinstance(refused, Refused)
    return refused.response


def check_key(request: Request, key: str) -> None:
    """Check the bearer token of a request, unless `key` is empty. Raises Refused."""
    sent = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
    if key and not hmac.compare_digest(sent, key.encode()):
        raise Refused(401, "the API key is wrong", "invalid_api_key")


async def read(request: Request, form: type[Body], most: int) -> Body:
    """Read a body of at most `most` bytes. Raises Refused."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Refused(413, f"the request has more than {most:,} bytes")
    try:
        return form.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(400, f"{where}: {first['msg']}" if where else first["msg"]) from error


async def unless_gone(request: Request, making: Awaitable[Answer]) -> Answer | None:
    """Return the answer, or cancel it and return None when the client disconnects."""
    answer, gone = asyncio.ensure_future(making), asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return await answer if answer.done() else None
    finally:
        answer.cancel()
        gone.cancel()


def event(data: Mapping[str, Any]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
