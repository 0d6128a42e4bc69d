"""Common behaviour of all JSON APIs: limits, timeouts, and a name for each failure."""

import asyncio
import gzip
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.web import json_api
from agentflow.tools.web.json_api import JsonApi
from tests.waiting import LAST_RESORT


@pytest.fixture
def api(httpserver: HTTPServer) -> JsonApi:
    return JsonApi(httpserver.url_for("/api"), "the API", seconds=LAST_RESORT, hint="do something else")


async def failure(api: JsonApi) -> ToolFailure:
    with pytest.raises(ToolFailure) as raised:
        await api.get({"q": "x"})
    return raised.value


async def test_a_get_and_a_post(httpserver: HTTPServer, api: JsonApi) -> None:
    httpserver.expect_request("/api").respond_with_json({"a": "ä"})
    assert await api.get({"q": "x y", "n": 3}) == await api.post({"q": ["x"]}) == {"a": "ä"}
    (get, _), (post, _) = httpserver.log
    assert dict(get.args) == {"q": "x y", "n": "3"}
    assert post.get_json() == {"q": ["x"]}


NO_JSON = "the API did not answer with JSON; do something else"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        *((status, "no", f"the API answered with HTTP {status}; do something else") for status in (401, 403, 302)),
        *((200, body, NO_JSON) for body in ("<html>", b'{"a": "\xe9"}', "[" * 200_000, "9" * 10_000)),
        (200, "[1]", "the API did not answer with a JSON object; do something else"),
        (429, "", "the API is busy and asks to wait 3600 seconds; do something else"),
    ],
)
async def test_a_failure_is_named_and_asked_once(
    httpserver: HTTPServer, api: JsonApi, status: int, body: Any, message: str
) -> None:
    headers = {"Retry-After": "3600", "Location": "http://169.254.169.254/"}
    httpserver.expect_request("/api").respond_with_data(body, status, headers)
    found = await failure(api)
    assert (found.error, str(found)) == (ErrorClass.TOOL_ERROR, message)
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_busy_server_is_asked_again_and_given_up(httpserver: HTTPServer, api: JsonApi, status: int) -> None:
    httpserver.expect_request("/api").respond_with_data("", status, {"Retry-After": "0"})
    assert "is busy" in str(await failure(api))
    assert len(httpserver.log) == 3


async def test_a_connection_that_breaks_off_is_tried_again_and_one_that_is_refused_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_api, "PAUSE", 0.01)
    replies = iter([b"", b"HTTP/1.1 200 OK\r\nContent-Len", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(replies))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await JsonApi(f"http://127.0.0.1:{port}/", "the API").get({}) == {}
    assert str(await failure(JsonApi("http://127.0.0.1:9/", "X"))) == "X could not be reached (ConnectError)"
    assert "could not be reached" in str(await failure(JsonApi("http://[", "X")))


async def test_time_that_ran_out_is_not_spent_twice(httpserver: HTTPServer, never: Any) -> None:
    httpserver.expect_request("/api").respond_with_handler(never)
    found = await failure(JsonApi(httpserver.url_for("/api"), "the API", seconds=0.3))
    assert (found.error, str(found)) == (ErrorClass.TIMEOUT, "the API did not answer in time")
    assert len(httpserver.log) <= 1


async def test_a_reply_of_100_mb_is_given_up(httpserver: HTTPServer, api: JsonApi) -> None:
    parts = (b" " * (1 << 16) for _ in range(1600))
    httpserver.expect_ordered_request("/api").respond_with_handler(lambda _: Response(parts))
    assert str(await failure(api)) == "the API answered with more than 16 MiB; do something else"


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "zstd", "deflate"])
async def test_encodings_that_were_not_asked_for_are_refused(
    httpserver: HTTPServer, api: JsonApi, encoding: str
) -> None:
    """A thousand bytes, compressed twice, took one and a half gigabytes before they were counted."""
    bomb = gzip.compress(gzip.compress(b" " * (1 << 20)))
    httpserver.expect_request("/api").respond_with_data(bomb, headers={"Content-Encoding": encoding})
    assert "was not asked for" in str(await failure(api))
