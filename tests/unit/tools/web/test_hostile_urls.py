"""Addresses that a model, or a page it read, might use to get at the machine: each is refused before it is dialled.

Two witnesses, neither of them ours: a listener on every address of the loopback network and on IPv6's loopback, which
counts who connects; and an audit hook of Python's, which sees every connection that this process tries to open.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.run import run_tool
from agentflow.tools.web.safe_http import FetchPolicy, fetch
from agentflow.tools.web_search import web_search
from tests.cases import table
from tests.failing import fails
from tests.waiting import until_async

LONG = ["http://" + "a" * 300 + "/", "http://127.0.0.1:{port}/" + "a" * 70_000]
URLS = [*table(__file__, "hostile_urls.txt"), *LONG]

_dialled: list[Any] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _dialled is not None and arguments[0].type == socket.SOCK_STREAM:
        address = arguments[1]
        _dialled.append(address)
        if address[0] not in ("127.0.0.1", "::1"):  # should the guard fail, a test still keeps to this machine
            raise ConnectionRefusedError(f"a test dialled {address}")


sys.addaudithook(_audit)  # it cannot be taken off again


@contextmanager
def dialling() -> Iterator[list[Any]]:
    """The addresses that this process opens a connection to, or tries to, in the meantime."""
    global _dialled
    _dialled = seen = []
    try:
        yield seen
    finally:
        _dialled = None


@pytest.fixture
async def listener() -> AsyncIterator[tuple[int, list[Any]]]:
    """A port on every internal address of this machine, and who connected to it."""
    connected: list[Any] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer.get_extra_info("sockname"))
        writer.close()

    server = await asyncio.start_server(accept, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    servers = [server]
    if socket.has_ipv6:
        servers.append(await asyncio.start_server(accept, "::1", port))
    yield port, connected
    for one in servers:
        one.close()
        await one.wait_closed()


async def _never(prompt: str) -> str:
    raise AssertionError("there was nothing to read")


async def test_no_hostile_address_is_dialled(listener: tuple[int, list[Any]]) -> None:
    port, connected = listener
    policy = FetchPolicy(ports=frozenset({80, 443, port}), seconds=10)
    wrong = {}
    with dialling() as dialled:
        for url in URLS:
            result = await run_tool(web_search(_never, policy), {"query": "q", "url": url.format(port=port)}, 3600)
            refused = result.output.startswith("refused: ") or "is not known" in result.output
            if result.error is not ErrorClass.TOOL_ERROR or not refused:
                wrong[url] = result.output
        assert dialled == []
    assert wrong == {}
    _, ours = await asyncio.open_connection("127.0.0.1", port)  # accepted after any of theirs
    await until_async(lambda: connected)
    ours.close()
    assert connected == [("127.0.0.1", port)]


async def test_the_witnesses_see_a_connection(listener: tuple[int, list[Any]]) -> None:
    port, connected = listener
    policy = FetchPolicy(allowed=frozenset({("127.0.0.1", port)}), robots=False)
    with dialling() as dialled, pytest.raises(ToolFailure):
        await fetch(f"http://127.0.0.1:{port}/", policy)
    assert dialled
    assert connected == [("127.0.0.1", port)] * len(dialled)


INSIDE = [url for url in URLS if url.startswith(("http://", "file:", "gopher:", "//")) and "{port}" in url][:45]


async def test_no_redirect_and_no_robots_txt_leads_there(
    httpserver: HTTPServer, listener: tuple[int, list[Any]]
) -> None:
    """The same addresses as redirects of a page, or of a robots.txt, that may itself be fetched."""
    port, connected = listener
    allowed = frozenset({(httpserver.host, httpserver.port)})
    for number, url in enumerate(INSIDE):
        target = {"Location": url.format(port=port).encode("ascii", "ignore").decode().strip("\0\t ")}
        httpserver.expect_request(f"/{number}").respond_with_data("", 302, target)
    httpserver.expect_request("/robots.txt").respond_with_data("", 302, {"Location": f"http://127.0.0.1:{port}/"})
    page = FetchPolicy(ports=frozenset({80, 443, port}), allowed=allowed, seconds=10, robots=False)
    with dialling() as dialled:
        for number, url in enumerate(INSIDE):
            with pytest.raises(ToolFailure) as failure:
                await fetch(httpserver.url_for(f"/{number}"), page)
            assert failure.value.error is ErrorClass.TOOL_ERROR, url
        with fails(ToolFailure, "not_public", "127.0.0.1"):
            await fetch(httpserver.url_for("/0"), FetchPolicy(ports=page.ports, allowed=allowed))
    assert {address[1] for address in dialled} == {httpserver.port}
    assert connected == []
