"""The search tools on real servers, which the tests install and start themselves: `make test-servers`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import httpx
import pytest

from agentflow.tools.encyclopedia.encyclopedia import Encyclopedia
from agentflow.tools.encyclopedia.mediawiki import MediaWiki
from agentflow.tools.encyclopedia.wikipedia_package import WikipediaPackage
from agentflow.tools.google_search import google_search
from agentflow.tools.providers.provider import Hit, SearchResult
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.search_cache import SearchCache
from agentflow.tools.web.safe_http import FetchPolicy, fetch
from agentflow.tools.web_search import web_search
from agentflow.tools.wikipedia_search import wikipedia_search
from tests.integration.search import servers
from tests.ports import free_port
from tests.waiting import LAST_RESORT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PAGES = {
    "Velmora": "'''Velmora''' is a city in [[Tarn]]. It has 41,000 people.\n\n== History ==\nIt is old.\n",
    "Tarn": "'''Tarn''' is a country by the sea.\n",
    "Ilka Dorn": "'''Ilka Dorn''', born in 1950, is a painter. She lives in [[Velmora]].\n",
    "City of light": "#REDIRECT [[Velmora]]\n",
    "Zoë Straße": "'''Zoë Straße''' is a street in Velmora.\n",
}


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    servers.install()


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.mediawiki(tmp_path_factory.mktemp("wiki"), PAGES) as url:
        yield url


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.nginx(tmp_path_factory.mktemp("nginx")) as url:
        yield url


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers.zim_archive(tmp_path_factory.mktemp("zim"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[str]:
    with servers.kiwix(tmp_path_factory.mktemp("kiwix"), archive) as url:
        yield url


async def look_up(query: str, source: Encyclopedia, cache: SearchCache | None = None) -> ToolResult:
    return await run_tool(wikipedia_search(source, cache), {"query": query}, 120)


# MediaWiki, by our one request and through the `wikipedia` package.


@pytest.mark.parametrize("provider", [MediaWiki, WikipediaPackage])
async def test_pages_redirects_and_titles_that_are_not_there(wiki: str, provider: type[MediaWiki]) -> None:
    source = provider(wiki, seconds=60)
    assert (await look_up("velmora", source)).output == "Velmora: Velmora is a city in Tarn. It has 41,000 people."
    assert (await look_up("City of light", source)).output.startswith("Velmora: Velmora is a city")
    assert (await look_up("Zoë Straße", source)).output == "Zoë Straße: Zoë Straße is a street in Velmora."
    closest = await look_up("Dorn", source)
    assert closest.output.splitlines() == [
        'No page is titled "Dorn". Closest pages:',
        "- Ilka Dorn: Ilka Dorn, born in 1950, is a painter.",
    ]
    assert (await look_up("quux", source)).error is ErrorClass.EMPTY_RESULT


async def test_what_was_recorded_is_replayed_when_the_server_is_gone(wiki: str, tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    recorded = await look_up("Tarn", MediaWiki(wiki, seconds=60), SearchCache("record", file))
    gone = MediaWiki(f"http://127.0.0.1:{free_port()}/api.php")
    assert (await look_up("Tarn", gone, SearchCache("replay", file))).output == recorded.output
    missed = await look_up("Velmora", gone, SearchCache("replay", file))
    assert 'has no recording of wikipedia_search "Velmora"' in missed.output


# nginx with a documentation corpus.


def policy_of(url: str) -> FetchPolicy:
    parts = urlsplit(url)
    return FetchPolicy(allowed=frozenset({(str(parts.hostname), int(parts.port or 0))}), seconds=60)


async def read(url: str, query: str = "q") -> ToolResult:
    async def ask(prompt: str) -> str:
        raise AssertionError("no model is asked for passages")

    tool = web_search(ask, policy_of(url), returns="passages")
    return await run_tool(tool, {"query": query, "url": url}, 120)


async def test_the_passage_that_answers_is_found_in_a_long_page(site: str) -> None:
    result = await read(f"{site}/ch05.en.html", "hostname resolution order nsswitch.conf")
    assert result.error is None
    assert "nsswitch.conf" in result.output
    assert len(result.output) < 6000
    assert (await read(f"{site}/moved", "network")).output.endswith("/ch05.en.html")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/forbidden/page", "refused: 127.0.0.1 forbids robots this page"),
        ("/inside", "refused: port"),
        ("/metadata", "refused: 169.254.169.254 is not a public address"),
        ("/loop", "more than 5 redirects"),
        ("/denied", "127.0.0.1 answered with HTTP 403"),
        ("/none-such", "127.0.0.1 answered with HTTP 404"),
    ],
)
async def test_what_misbehaves_is_one_line(site: str, path: str, message: str) -> None:
    result = await read(site + path)
    assert result.error is ErrorClass.TOOL_ERROR
    assert result.output.startswith(message)


async def test_of_100_mb_three_are_taken(site: str) -> None:
    document = await fetch(f"{site}/large.txt", policy_of(site))
    assert len(document.body) == 3 << 20


async def test_a_site_that_limits_requests_is_waited_for(site: str) -> None:
    results = [await read(f"{site}/limited/ch01.en.html", "shell") for _ in range(4)]
    assert [result.error for result in results] == [None] * 4


# Kiwix: a search engine whose pages are read, and an archive that becomes a corpus.


class Kiwix:
    """kiwix-serve's full-text search, as a provider of google_search."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def search(self, query: str, k: int) -> SearchResult:
        asked = {"content": "docs", "pattern": query, "format": "xml", "pageLength": str(k)}
        async with httpx.AsyncClient(trust_env=False, timeout=LAST_RESORT) as client:
            reply = await client.get(f"{self._url}/search", params=asked)
        items = ElementTree.fromstring(reply.text).iter("item")
        hits = [
            Hit(item.findtext("title", ""), self._url + item.findtext("link", ""), item.findtext("description", ""))
            for item in items
        ]
        return SearchResult(hits[:k], "kiwix")


async def test_a_page_that_the_search_found_answers(library: str) -> None:
    found = await run_tool(google_search(Kiwix(library)), {"query": "network configuration"}, 60)
    assert (found.error, found.provider) == (None, "kiwix")
    url = next(line for line in found.output.splitlines() if line.startswith("http"))
    assert "interface" in (await read(url, "network interface configuration")).output


def test_a_zim_archive_becomes_a_corpus(archive: Path, tmp_path: Path) -> None:
    pytest.importorskip("libzim")

    def agentflow(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "agentflow", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    index = tmp_path / "docs.sqlite"
    assert f"passages are in {index}" in agentflow("corpus", "build", str(archive), "--out", str(index))
    assert "Closest pages:" in agentflow("corpus", "look-up", str(index), "configure the network interface")
