"""web_search on pages: robots.txt, PDF, encodings, passages, and malicious servers."""

import asyncio
import gzip
import os
import re
import threading
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from encodings.aliases import aliases
from itertools import count
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agentflow.tools.result import ToolFailure, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox import execute
from agentflow.tools.web import extraction, robots
from agentflow.tools.web.safe_http import FetchPolicy, PageRefused, fetch
from agentflow.tools.web_search import web_search
from tests.failing import fails
from tests.processes import python
from tests.sandboxes import new_processes
from tests.waiting import LAST_RESORT, until_async


@pytest.fixture
def policy(httpserver: HTTPServer) -> FetchPolicy:
    return FetchPolicy(allowed=frozenset({(httpserver.host, httpserver.port)}), seconds=30)


@pytest.fixture
def open_policy(policy: FetchPolicy) -> FetchPolicy:
    return FetchPolicy(allowed=policy.allowed, seconds=30, robots=False)


async def _excerpts(prompt: str) -> str:
    return prompt.partition("\n\nExcerpts of ")[2].partition(":\n")[2]


async def passages(url: str, policy: FetchPolicy, query: str = "q") -> ToolResult:
    tool = web_search(_excerpts, policy)
    return await run_tool(tool, {"query": query, "url": url}, 120)


# robots.txt.


ROBOTS = "User-agent: *\nDisallow: /private\nAllow: /private/but\n\nUser-agent: agentflow-langgraph\nDisallow: /ours\n"


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("User-agent: *\nDisallow: /private*.html$\n", "/private/a.html", False),
        ("User-agent: *\nDisallow: /private*.html$\n", "/private/a", True),
        ("User-agent: *\nDisallow: /private\n", "/old", False),  # which leads to /private
        (ROBOTS, "/private/a", True),  # rules for us take the place of those for all
        (ROBOTS, "/ours/a", False),
    ],
)
async def test_a_page_that_robots_txt_forbids_is_not_asked_for(
    httpserver: HTTPServer, policy: FetchPolicy, rules: str, path: str, allowed: bool
) -> None:
    httpserver.expect_request("/robots.txt").respond_with_data(rules)
    httpserver.expect_request("/old").respond_with_data("", 302, {"Location": "/private"})
    httpserver.expect_request("/private/a").respond_with_data("text", content_type="text/plain")
    for _ in range(2):
        result = await passages(httpserver.url_for(path), policy)
        assert (result.error is None) is allowed
        assert allowed or result.output == "refused: localhost forbids robots this page"
    asked = [request.path for request, _ in httpserver.log]
    assert asked.count("/robots.txt") == 1  # asked once a day
    assert set(asked) - {"/robots.txt"} == ({path} if allowed or path == "/old" else set())


async def test_an_address_without_end_is_refused_before_the_rules_read_it(
    httpserver: HTTPServer, policy: FetchPolicy
) -> None:
    """Rules with many wildcards took seconds for 60,000 characters, on the event loop."""
    httpserver.expect_request("/robots.txt").respond_with_data("User-agent: *\nDisallow: /*xyz9\n")
    httpserver.expect_request("/short").respond_with_data("", 302, {"Location": "/" + "x" * 60_000})
    for path in ("/" + "x" * 60_000, "/short"):
        with fails(PageRefused, "long_address"):
            await fetch(httpserver.url_for(path), policy)


DISALLOW = b"User-agent: *\nDisallow: /"


@pytest.mark.parametrize(
    ("status", "rules", "allowed"),
    [
        *((404, DISALLOW, True), (403, DISALLOW, True), (500, DISALLOW, False), (503, DISALLOW, False)),
        *((200, hostile, True) for hostile in (b"\xff\xfe\0\0", DISALLOW + b"a*" * 200_000, b"\n" * 3_000_000)),
    ],
)
async def test_a_site_without_rules_or_with_hostile_ones_allows_all_and_one_that_cannot_say_nothing(
    httpserver: HTTPServer,
    policy: FetchPolicy,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    rules: bytes,
    allowed: bool,
) -> None:
    monkeypatch.setattr(robots, "KEPT", 1)
    monkeypatch.setitem(robots._kept, "http://old.example", robots._Rules(None, 500, 0))
    httpserver.expect_request("/robots.txt").respond_with_data(rules, status)
    httpserver.expect_request("/aaaaaaaa").respond_with_data("text", content_type="text/plain")
    result = await passages(httpserver.url_for("/aaaaaaaa"), policy)
    assert (result.error is None) is allowed
    assert allowed or f"(HTTP {status})" in result.output
    assert list(robots._kept) == [httpserver.url_for("").rstrip("/")]


# PDF.


VAULT = (Path(__file__).parent / "cases" / "vault.pdf").read_bytes()  # of one page, by hand


def bomb_pdf() -> bytes:
    """The same page with two gigabytes of content in two megabytes."""
    zeros = zlib.compress(b"0 " * (50 << 20), 9)
    stream = b"<< /Length %d /Filter [/FlateDecode] >>\nstream\n%s\nendstream" % (len(zeros), zeros)
    before, rest = VAULT.split(b"4 0 obj\n")
    before = before.replace(b"/Contents 4 0 R", b"/Contents [" + b"4 0 R " * 20 + b"]")
    return before + b"4 0 obj\n" + stream + b"\nendobj\n" + rest.partition(b"endobj\n")[2]


PDF, PLAIN, WEB = "application/pdf", "text/plain", "text/html"
JAPANESE = "<html><body><p>日本語の文章です。</p></body></html>".encode("shift_jis")
RUSSIAN = '<html><meta charset="cp1251"><body><p>Привет, мир.</p></body></html>'.encode("cp1251")


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        (PDF, VAULT, "The code of the vault is 4711."),
        *((PDF, body, None) for body in (b"", b"%PDF-1.7\n", b"no pdf", VAULT[:300])),
        (f"{PLAIN}; charset=latin-1", "Zoë".encode("latin-1"), "Zoë"),
        (f"{PLAIN}; charset=utf-8", "Zoë".encode("latin-1"), "Zo\ufffd"),  # a wrong one
        (f"{PLAIN}; charset=none-such", "Zoë".encode(), "Zoë"),
        (f"{PLAIN}; charset=rot13", b"plain", "plain"),
        (PLAIN, "Zoë".encode(), "Zoë"),
        (f"{WEB}; charset=shift_jis", JAPANESE, "日本語"),
        (WEB, RUSSIAN, "Привет"),
        (f"{WEB}; charset=utf-8", b"<html><body><p>Caf\xe9 au lait</p></body></html>", "Caf\ufffd au lait"),
    ],
)
async def test_the_text_of_a_document_is_read_or_its_damage_is_one_line(
    httpserver: HTTPServer, open_policy: FetchPolicy, content_type: str, body: bytes, text: str | None
) -> None:
    httpserver.expect_request("/a").respond_with_data(body, headers={"Content-Type": content_type})
    result = await passages(httpserver.url_for("/a"), open_policy)
    assert (result.error is None) is (text is not None)
    assert text in result.output if text else "\n" not in result.output


HOSTILE = {
    "a PDF that unpacks to gigabytes": lambda: extraction.text_of_pdf(bomb_pdf()),
    "paragraphs that do not end": lambda: extraction.text_of_html(b"<p>x" * 750_000, ""),
}


@pytest.mark.parametrize("read", HOSTILE.values(), ids=HOSTILE)
async def test_a_document_that_takes_all_time_or_memory_is_given_up(
    read: Callable[[], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paragraphs took 25 seconds and 1.3 GB of the agent's own process, and continued after its timeout."""
    monkeypatch.setattr(extraction, "LIMITS", replace(extraction.LIMITS, seconds=2.0))
    execute.unavailable()
    started = new_processes()
    with suppress(ToolFailure):
        assert len(await read()) < 100
    await until_async(lambda: not started())


@pytest.mark.process
@pytest.mark.parametrize("tier", ["", "subprocess", "none such"])
def test_the_agents_own_process_parses_nothing(tier: str) -> None:
    """This holds also where no sandbox works."""
    program = (
        "import asyncio, sys\nfrom agentflow.tools.web.extraction import text_of_html, text_of_pdf\n"
        "print(asyncio.run(text_of_html(b'<html><body><p>Velmora is a city.</p></body></html>', '')).strip())\n"
        "print(asyncio.run(text_of_pdf(bytes.fromhex(sys.argv[1]))).strip())\n"
        "print(*{'trafilatura', 'lxml', 'pypdf'} & sys.modules.keys())"
    )
    done = python("-c", program, VAULT.hex(), env={**os.environ, "AGENTFLOW_SANDBOX": tier})
    read = ["Velmora is a city.", "The code of the vault is 4711.", "It is kept.", ""]
    assert done.stdout.splitlines() == read, done.stderr


@pytest.mark.parametrize("name", sorted({*aliases.values(), "idna", "unicode_escape", "raw_unicode_escape", "mbcs"}))
def test_only_encodings_of_the_web_are_decoded(name: str) -> None:
    """Punycode takes quadratic time."""
    known = extraction.web_encoding(name)
    assert known == "" or known in extraction._ENCODINGS
    assert not known or not re.search("puny|idna|escape|utf_?7|utf_?32|codec|rot|hex|uu|zip|bz2", name)


async def test_a_pdf_that_is_too_large_is_refused(httpserver: HTTPServer, open_policy: FetchPolicy) -> None:
    httpserver.expect_request("/a.pdf").respond_with_data(b"%PDF" + bytes(2 << 20), content_type="application/pdf")
    with fails(PageRefused, "large"):
        await fetch(httpserver.url_for("/a.pdf"), replace(open_policy, max_pdf_bytes=1 << 20))


# Servers that are busy, slow, or mean harm.


@pytest.mark.parametrize(
    ("replies", "tries"),
    [
        ([(429, "0"), (503, "0"), (200, "")], 3),
        ([(503, "0")] * 3, 3),
        *(([busy], 1) for busy in ((429, "120"), (403, "0"), (500, "0"))),
    ],
)
async def test_a_page_is_asked_again_if_it_is_busy_and_says_when(
    httpserver: HTTPServer, open_policy: FetchPolicy, replies: list[tuple[int, str]], tries: int
) -> None:
    for status, wait in replies:
        httpserver.expect_ordered_request("/").respond_with_data("a page", status, {"Retry-After": wait}, PLAIN)
    result = await passages(httpserver.url_for("/"), open_policy)
    assert ("a page" if replies[-1][0] == 200 else f"answered with HTTP {replies[-1][0]}") in result.output
    assert len(httpserver.log) == tries


async def test_of_a_body_of_100_mb_only_the_beginning_is_taken(
    httpserver: HTTPServer, open_policy: FetchPolicy
) -> None:
    sent = count()
    parts = (b"word" * (1 << 14) for _, _ in zip(range(1600), sent, strict=False))
    httpserver.expect_request("/").respond_with_handler(lambda _: Response(parts, content_type="text/plain"))
    document = await fetch(httpserver.url_for("/"), open_policy)
    assert len(document.body) == open_policy.max_bytes
    assert next(sent) < 1600


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
async def test_nothing_is_decompressed(httpserver: HTTPServer, open_policy: FetchPolicy, encoding: str) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 100_000
    httpserver.expect_request("/").respond_with_data(
        bomb, headers={"Content-Encoding": encoding, "Content-Type": "text/html"}
    )
    with fails(PageRefused, "compressed"):
        await fetch(httpserver.url_for("/"), open_policy)
    assert httpserver.log[0][0].headers["Accept-Encoding"] == "identity"


async def test_a_host_is_not_asked_by_many_at_once() -> None:
    under_way, most, lock = 0, 0, threading.Lock()
    four = threading.Barrier(4, timeout=LAST_RESORT)

    def slow(request: Request) -> Response:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        four.wait()
        with lock:
            under_way -= 1
        return Response("text", content_type="text/plain")

    with HTTPServer(threaded=True) as server:
        server.expect_request("/").respond_with_handler(slow)
        policy = FetchPolicy(allowed=frozenset({(server.host, server.port)}), seconds=LAST_RESORT, robots=False)
        await asyncio.gather(*(fetch(server.url_for("/"), policy) for _ in range(20)))
        assert len(server.log) == 20
    assert most == 4
