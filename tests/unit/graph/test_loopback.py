"""Requests that servers on this machine and the LangGraph server answer, with granted pages and hosts."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentflow.graph.loopback import LoopbackOnly
from agentflow.graph.origin_guard import ORIGINS, OriginGuard

LOCAL = ["localhost", "LOCALHOST:2024", "127.0.0.1", "127.0.0.1:2024", "127.8.0.1:1", "[::1]", "[::1]:2024"]
FOREIGN = [
    "evil.example",
    "evil.example:2024",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.evil.example",
    "user@localhost",
    "localhost:80:evil",
    "localhost:2024@evil.example",
    "10.0.0.1",
    "::1",
    "",
]


async def status(
    middleware: type[LoopbackOnly], headers: dict[str, str], arrived: tuple[str, int | None] = ("127.0.0.1", 2024)
) -> int:
    """The answer to a GET that came in at the address `arrived`."""

    async def at(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "server": arrived}, receive, send)

    async def answer(request: object) -> PlainTextResponse:
        return PlainTextResponse("answered")

    app = Starlette(routes=[Route("/ok", answer)], middleware=[Middleware(middleware)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(at), base_url="http://localhost") as client:
        return (await client.get("/ok", headers=headers)).status_code


@pytest.mark.parametrize("middleware", [LoopbackOnly, OriginGuard])
@pytest.mark.parametrize(("host", "expected"), [*((name, 200) for name in LOCAL), *((name, 403) for name in FOREIGN)])
async def test_a_name_that_could_resolve_here_is_refused(
    middleware: type[LoopbackOnly], host: str, expected: int
) -> None:
    assert await status(middleware, {"Host": host}) == expected


@pytest.mark.parametrize("middleware", [LoopbackOnly, OriginGuard])
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:3000", 200),
        ("https://127.0.0.1:5173", 200),
        ("https://evil.example", 403),
        ("http://localhost:80:evil", 403),
        ("file://localhost", 403),
        ("localhost", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_another_sites_page_is_refused(middleware: type[LoopbackOnly], origin: str, expected: int) -> None:
    assert await status(middleware, {"Origin": origin}) == expected


async def test_what_is_granted_is_answered_under_its_name_and_to_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ORIGINS, "https://agent.example, http://proxy.example:8000")
    assert await status(OriginGuard, {"Host": "agent.example"}) == 200
    assert await status(OriginGuard, {"Host": "proxy.example:8000", "Origin": "http://proxy.example:8000"}) == 200
    assert await status(OriginGuard, {"Host": "other.example"}) == 403
    assert await status(OriginGuard, {"Origin": "http://agent.example"}) == 403
    assert await status(LoopbackOnly, {"Host": "agent.example"}) == 403


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://smith.langchain.com", 200),
        ("https://eu.smith.langchain.com", 200),
        ("https://smith.langchain.com.evil.example", 403),
        ("https://evilsmith.langchain.com", 403),
        ("http://localhost.evil.example", 403),
    ],
)
async def test_studios_pages_may_use_the_langgraph_server(origin: str, expected: int) -> None:
    assert await status(OriginGuard, {"Origin": origin}) == expected


@pytest.mark.parametrize("arrived", [("172.17.0.2", 8000), ("fd00::7", 8000), ("api", None)])
async def test_any_name_will_do_beyond_loopback(arrived: tuple[str, int | None]) -> None:
    """Requests in a container, and of the LangGraph server to itself, are answered."""
    assert await status(OriginGuard, {"Host": "api"}, arrived) == 200
    assert await status(OriginGuard, {"Host": "api", "Origin": "https://evil.example"}, arrived) == 403
    assert await status(OriginGuard, {"Host": "api"}) == 403
