"""The `wikipedia` package against a server that speaks MediaWiki's API, with its known faults."""

import asyncio
import json
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agentflow import __version__
from agentflow.tools.encyclopedia.wikipedia_package import WikipediaPackage
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.run import run_tool
from agentflow.tools.wikipedia_search import wikipedia_search
from tests.waiting import LAST_RESORT

PAGES = {
    "Dog": "The dog is an animal.",
    "Frog": "A frog is an amphibian.",
    "Mercury (planet)": "Mercury is a planet.",
    "Mercury (element)": "Mercury is a chemical element.",
}
REDIRECTS = {"Hound": "Dog"}
MEANINGS = ["Mercury (planet)", "Mercury (element)", "Mercury (lost)"]
MERCURIES = [f"- {title}: {PAGES[title]}" for title in MEANINGS[:2]]
MEANINGS_HTML = "<ul>" + "".join(f"<li><a>{title}</a></li>" for title in MEANINGS) + "<li>no link</li></ul>"


def mediawiki(request: Request) -> Response:
    """MediaWiki's replies to the requests of the package."""
    asked = request.args
    assert asked["format"] == "json"
    assert "list" in asked or "titles" in asked or "pageids" in asked
    if asked.get("list") == "search":
        assert asked.get("srinfo") is None, "no suggestion is asked for"
        found = [title for title in PAGES if asked["srsearch"].casefold() in PAGES[title].casefold()]
        return reply(search=[{"title": title} for title in found])
    title = asked.get("titles", "Mercury")
    if title in REDIRECTS:
        pages = {"1": {"pageid": 1, "title": REDIRECTS[title]}}
        return reply(pages=pages, redirects=[{"from": title, "to": REDIRECTS[title]}])
    if title == "Mercury":
        page: dict[str, Any] = {"pageid": 9, "title": title, "pageprops": {"disambiguation": ""}, "fullurl": "u"}
        if "revisions" in asked["prop"]:
            page["revisions"] = [{"*": MEANINGS_HTML}]
        return reply(pages={"9": page})
    if title not in PAGES:
        return reply(pages={"-1": {"title": title, "missing": ""}})
    page = {"pageid": 2, "title": title, "fullurl": "https://w.example", "extract": PAGES[title]}
    return reply(pages={"2": page})


def reply(**query: Any) -> Response:
    return Response(json.dumps({"query": query}), mimetype="application/json")


@pytest.fixture
def package(httpserver: HTTPServer) -> WikipediaPackage:
    return WikipediaPackage(httpserver.url_for("/w/api.php"), seconds=LAST_RESORT)


async def look_up(query: str, package: WikipediaPackage) -> ToolResult:
    return await run_tool(wikipedia_search(package), {"query": query}, LAST_RESORT)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("Dog", ["Dog: The dog is an animal."]),  # and not the frog that the package would suggest
        ("Hound", ["Dog: The dog is an animal."]),
        ("amphibian", ['No page is titled "amphibian". Closest pages:', "- Frog: A frog is an amphibian."]),
        ("Mercury", ['"Mercury" names several pages. Closest pages:', *MERCURIES]),
    ],
)
async def test_pages_by_exact_title_and_by_search(
    httpserver: HTTPServer, package: WikipediaPackage, query: str, lines: list[str]
) -> None:
    httpserver.expect_request("/w/api.php").respond_with_handler(mediawiki)
    assert (await look_up(query, package)).output.splitlines() == lines
    assert all(f"agentflow-langgraph/{__version__}" in request.headers["User-Agent"] for request, _ in httpserver.log)


BODIES = ["<html>no JSON", '{"batchcomplete": ""}', '{"query": {"pages": {"1": 5}}}']


async def test_no_page_is_an_empty_result_and_another_reply_a_tool_error(
    httpserver: HTTPServer, package: WikipediaPackage
) -> None:
    for body in BODIES:
        httpserver.expect_oneshot_request("/w/api.php").respond_with_data(body)
        assert (await look_up("Dog", package)).error is ErrorClass.TOOL_ERROR
    httpserver.expect_request("/w/api.php").respond_with_handler(mediawiki)
    for query in ("nothing of that kind", "", " "):
        assert (await look_up(query, package)).error is ErrorClass.EMPTY_RESULT


async def test_a_refused_search_is_named(httpserver: HTTPServer, package: WikipediaPackage) -> None:
    def refuse(request: Request) -> Response:
        if request.args.get("list") == "search":
            return Response('{"error": {"code": "x", "info": "The search is off."}}')
        return mediawiki(request)

    httpserver.expect_request("/w/api.php").respond_with_handler(refuse)
    assert "refused the request (The search is off.)" in (await look_up("amphibian", package)).output


async def test_look_ups_of_two_servers_do_not_mix(httpserver: HTTPServer, package: WikipediaPackage) -> None:
    """The package keeps its settings and its cache in globals; neither is used."""
    httpserver.expect_request("/w/api.php").respond_with_handler(mediawiki)
    nothing = {"query": {"search": [], "pages": {"-1": {"missing": ""}}}}
    httpserver.expect_request("/other/api.php").respond_with_json(nothing)
    other = WikipediaPackage(httpserver.url_for("/other/api.php"))
    results = await asyncio.gather(*(look_up("amphibian", source) for source in (package, other) * 5))
    assert [result.error for result in results] == [None, ErrorClass.EMPTY_RESULT] * 5
