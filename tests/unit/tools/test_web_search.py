import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer

from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.untrusted_text import MARK
from agentflow.tools.web.passages import CHUNK, rank, split
from agentflow.tools.web.safe_http import FetchPolicy, PageRefused, fetch, is_public
from agentflow.tools.web_search import web_search
from tests.cases import table
from tests.failing import fails
from tests.waiting import LAST_RESORT

PARAGRAPHS = [
    f"Paragraph {n} speaks at some length about the matter of topic{n}. " + "Filler words. " * 60 for n in range(12)
]
HTML = (
    "<html><head><title>T</title></head><body><nav><a href='/x'>Menu entry</a></nav><article><h1>Topics</h1>"
    + "".join(f"<p>{text}</p>" for text in PARAGRAPHS)
    + "</article><script>evil()</script></body></html>"
)


@pytest.fixture
def policy(httpserver: HTTPServer) -> FetchPolicy:
    httpserver.expect_request("/robots.txt").respond_with_data("", 404)
    return FetchPolicy(allowed=frozenset({(httpserver.host, httpserver.port)}), max_bytes=100_000, seconds=LAST_RESORT)


class Model:
    """A model with scripted replies that records its prompts."""

    def __init__(self, answer: str = "the answer") -> None:
        self.answer, self.prompts = answer, list[str]()

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answer


async def read(url: str, policy: FetchPolicy, model: Model | None = None, query: str = "topic7") -> ToolResult:
    return await run_tool(web_search(model or Model(), policy), {"query": query, "url": url}, LAST_RESORT)


async def test_it_answers_from_the_best_chunks_and_names_the_page(httpserver: HTTPServer, policy: FetchPolicy) -> None:
    httpserver.expect_request("/page").respond_with_data(HTML, content_type="text/html; charset=utf-8")
    model = Model()
    url = httpserver.url_for("/page")
    result = await read(url, policy, model)
    assert (result.error, result.output) == (None, f"the answer\nSource: {url}")
    (prompt,) = model.prompts
    assert "matter of topic7." in prompt
    assert prompt.count("speaks at some length") < 6
    assert "Menu entry" not in prompt
    assert "evil()" not in prompt


async def test_the_page_after_a_redirect_is_read_and_cited(httpserver: HTTPServer, policy: FetchPolicy) -> None:
    httpserver.expect_request("/old").respond_with_data("", 302, {"Location": "/new"})
    httpserver.expect_request("/new").respond_with_data("Code: 7", content_type="text/plain")
    model = Model()
    assert (await read(httpserver.url_for("/old"), policy, model)).output.endswith("/new")
    assert model.prompts[0].endswith("Code: 7")


async def test_without_a_text_or_an_answer_the_result_is_empty(httpserver: HTTPServer, policy: FetchPolicy) -> None:
    for html in ("", "<html><body></body></html>", "<html><script>x()</script></html>"):
        httpserver.expect_oneshot_request("/").respond_with_data(html, content_type="text/html")
        result = await read(httpserver.url_for("/"), policy)
        assert result.error is ErrorClass.EMPTY_RESULT
        assert result.output.startswith("no readable text at")
    httpserver.expect_request("/").respond_with_data("text", content_type="text/plain")
    assert (await read(httpserver.url_for("/"), policy, Model(" "))).error is ErrorClass.EMPTY_RESULT


# The guard.


async def test_an_allowance_is_for_one_port_only(httpserver: HTTPServer, policy: FetchPolicy) -> None:
    with fails(PageRefused, "port", httpserver.port + 1):
        await fetch(f"http://{httpserver.host}:{httpserver.port + 1}/", policy)
    with fails(PageRefused, "bad_address"):
        await fetch(f"http://user:password@{httpserver.host}:{httpserver.port}/", policy)


async def test_the_connection_goes_to_the_one_address_that_was_checked(
    httpserver: HTTPServer, policy: FetchPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name does not resolve at all: only the checked address can have been used."""
    answers = iter([["93.184.216.34", "127.0.0.1"], ["127.0.0.1"]])

    async def resolve(host: str, port: int) -> list[str]:
        return next(answers)

    monkeypatch.setattr("agentflow.tools.web.safe_http._resolve", resolve)
    with fails(PageRefused, "not_public", "two.example"):
        await fetch("http://two.example/", policy)
    monkeypatch.setattr("agentflow.tools.web.safe_http.is_public", lambda address: True)
    httpserver.expect_request("/").respond_with_data("pinned", content_type="text/plain")
    one_port = FetchPolicy(ports=frozenset({httpserver.port}), seconds=LAST_RESORT, robots=False)
    assert (await fetch(f"http://name.invalid:{httpserver.port}/", one_port)).body == b"pinned"
    assert httpserver.log[0][0].headers["Host"] == f"name.invalid:{httpserver.port}"


def test_public_addresses_are_public() -> None:
    assert all(map(is_public, ("93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8")))


@pytest.mark.parametrize("kind", ["image/png", "image/svg+xml"])
async def test_what_is_no_text_is_refused(httpserver: HTTPServer, policy: FetchPolicy, kind: str) -> None:
    httpserver.expect_request("/").respond_with_data("body", content_type=kind)
    with fails(PageRefused, "content_type", kind):
        await fetch(httpserver.url_for("/"), policy)


async def test_redirects_end(httpserver: HTTPServer, policy: FetchPolicy) -> None:
    httpserver.expect_request("/").respond_with_data("body", 302, {"Location": "/"})
    assert "more than 5 redirects" in (await read(httpserver.url_for("/"), policy)).output


async def test_a_server_that_drips_is_a_timeout() -> None:
    ended = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            writer.close()
            ended.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        result = await read(
            f"http://127.0.0.1:{port}/",
            FetchPolicy(allowed=frozenset({("127.0.0.1", port)}), seconds=0.4, robots=False),
        )
        await asyncio.wait_for(ended.wait(), LAST_RESORT)  # the guard has hung up
    assert (result.error, result.output) == (ErrorClass.TIMEOUT, "the page did not arrive in 0.4 seconds")


async def test_a_refused_connection_is_named() -> None:
    result = await read("http://127.0.0.1:9/", FetchPolicy(allowed=frozenset({("127.0.0.1", 9)})))
    assert "could not be fetched (ConnectError" in result.output


# Splitting and ranking.


TEXTS = st.lists(
    st.tuples(st.sampled_from(["w", "word ", "A sentence. ", "\n", "\n\n", "! "]), st.integers(0, 1500)), max_size=6
).map(lambda parts: "".join(part * times for part, times in parts))


@given(TEXTS)
@settings(max_examples=50, deadline=None)
def test_chunks_are_bounded_and_lose_no_word(text: str) -> None:
    chunks = split(text)
    assert all(0 < len(chunk) <= CHUNK for chunk in chunks)
    assert "".join("".join(chunks).split()) == "".join(text.split())


def test_the_best_chunk_is_among_the_ranked_and_a_query_that_fits_nothing_still_ranks() -> None:
    for query in ("topic7", "tell me about TOPIC7, please"):
        assert any("topic7" in chunk for chunk in rank(query, split("\n\n".join(PARAGRAPHS)), 2))
    for query in ("", "the", "zzz", "\ud800"):
        assert len(rank(query, PARAGRAPHS, 3)) == len(rank(query, ["the", "a", "of", "."], 3)) == 3


[HOSTILE] = table(__file__, "hostile_page.txt")
TOKENS = ("<|im_end|>", "<|im_start|>", "<|im_\u200bstart|>", "[SYSTEM_PROMPT]", "<bos>", "\x1b")


@pytest.mark.parametrize("pages", [1, 40])
async def test_what_a_page_says_is_contained_before_a_model_reads_it(
    httpserver: HTTPServer, policy: FetchPolicy, pages: int
) -> None:
    said = "\n\n".join([HOSTILE, *PARAGRAPHS] * pages)[:90_000]
    httpserver.expect_request("/page").respond_with_data(said, content_type="text/plain; charset=utf-8")
    model, url = Model(), httpserver.url_for("/page")
    assert (await read(url, policy, model, query="How tall is the tower? erase")).error is None
    shown = model.prompts[0].partition("Excerpts of")[2].partition("\n")[2]
    assert "The tower is 41 metres tall." in shown
    assert MARK in shown
    assert not [line for line in shown.split("\n")[1:] if not line.startswith(">")]
    assert not [token for token in TOKENS if token in shown]
