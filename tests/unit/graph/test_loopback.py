"""Requests that servers on this machine and the LangGraph server answer, with granted pages and hosts."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentflow.graph.loopback import LoopbackOnly
from agentflow.graph.origin_guard import ORIGINS, OriginGuard
from tests.cases import cases

REQUESTS = Path(__file__).with_name("cases") / "requests.jsonl"


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


@pytest.mark.parametrize(("headers", "loopback", "server"), cases(REQUESTS, "headers", "loopback", "server"))
async def test_a_name_that_could_resolve_here_and_another_sites_page_are_refused(
    headers: dict[str, str], loopback: int, server: int
) -> None:
    assert (await status(LoopbackOnly, headers), await status(OriginGuard, headers)) == (loopback, server)


async def test_what_is_granted_is_answered_under_its_name_and_to_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ORIGINS, "https://agent.example, http://proxy.example:8000")
    assert await status(OriginGuard, {"Host": "agent.example"}) == 200
    assert await status(OriginGuard, {"Host": "proxy.example:8000", "Origin": "http://proxy.example:8000"}) == 200
    assert await status(OriginGuard, {"Host": "other.example"}) == 403
    assert await status(OriginGuard, {"Origin": "http://agent.example"}) == 403
    assert await status(LoopbackOnly, {"Host": "agent.example"}) == 403


@pytest.mark.parametrize("arrived", [("172.17.0.2", 8000), ("fd00::7", 8000), ("api", None)])
async def test_any_name_will_do_beyond_loopback(arrived: tuple[str, int | None]) -> None:
    """Requests in a container, and of the LangGraph server to itself, are answered."""
    assert await status(OriginGuard, {"Host": "api"}, arrived) == 200
    assert await status(OriginGuard, {"Host": "api", "Origin": "https://evil.example"}, arrived) == 403
    assert await status(OriginGuard, {"Host": "api"}) == 403
