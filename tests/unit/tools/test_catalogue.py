"""The standard tools: which are built, whether they work here, and which language model answers from behind each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, tool

from agentflow.graph.context import DEFAULT_TOOLS
from agentflow.tools.base_generator import prompt
from agentflow.tools.catalogue import OFFLINE_TOOLS, STANDARD_TOOLS, availability, standard_tools
from agentflow.tools.google_search import google_search
from agentflow.tools.mcp.spec import SpecError
from agentflow.tools.providers.provider import SearchResult, model_in
from agentflow.tools.providers.serper import Serper
from agentflow.tools.search_settings import SearchSettings
from agentflow.tools.tool_model import RUN, UNKNOWN, model_behind
from tests.failing import fails


async def ask(text: str) -> str:
    return f"answered: {text}"


async def test_only_the_named_tools_are_built_and_ask_the_given_model() -> None:
    tools = standard_tools(["python_coder", "base_generator"], ask, SearchSettings())
    assert {name: one.name for name, one in tools.items()} == {name: name for name in tools}
    assert list(tools) == ["python_coder", "base_generator"]
    assert await tools["base_generator"].ainvoke({"query": "hello"}) == f"answered: {prompt('hello')}"
    with fails(SpecError, "unknown_tool", "calculator", *STANDARD_TOOLS):
        standard_tools(["calculator"], ask, SearchSettings())
    assert "'calculator'" in (availability("calculator", SearchSettings()) or "")


def test_availability_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [availability(name, SearchSettings()) for name in DEFAULT_TOOLS] == [None] * len(DEFAULT_TOOLS)
    assert "TAVILY_API_KEY" in (availability("google_search", SearchSettings()) or "")
    monkeypatch.setenv("TAVILY_API_KEY", "x")
    assert availability("google_search", SearchSettings()) is None
    missing = availability("wikipedia_search", SearchSettings(corpus="/no/such.db"))
    assert "there is no corpus '/no/such.db'" in (missing or "")


# The model behind a tool.


@tool
def stock(article: str) -> str:
    """Looks up the stock."""
    return article


def saying(model: object) -> BaseTool:
    return stock.model_copy(update={"metadata": {"agentflow": {"model": model}}})


def behind(search: SearchSettings) -> dict[str, str]:
    return {name: model_behind(one) for name, one in standard_tools(STANDARD_TOOLS, ask, search).items()}


def test_the_standard_tools_all_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"base_generator": RUN, "python_coder": "", "wikipedia_search": "", "google_search": "", "web_search": RUN}
    assert behind(SearchSettings()).items() >= said.items()
    assert behind(SearchSettings(corpus="http://127.0.0.1:9/retrieve"))["wikipedia_search"] == UNKNOWN
    assert behind(SearchSettings(engine="gemini:gemini-2.5-pro"))["google_search"] == "gemini (gemini-2.5-pro)"
    assert behind(SearchSettings(engine="serper"))["google_search"] == ""
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert behind(SearchSettings())["google_search"].startswith("gemini (")
    assert set(OFFLINE_TOOLS) < set(STANDARD_TOOLS)


@pytest.mark.parametrize(
    ("one", "model"),
    [
        (stock, UNKNOWN),
        (saying(None), UNKNOWN),
        (saying(7), UNKNOWN),
        (saying(""), ""),
        (saying("openai:gpt-4o\nand more"), "openai:gpt-4o and more"),
        (stock.model_copy(update={"metadata": {"agentflow": "no card"}}), UNKNOWN),
        (google_search(Serper()), UNKNOWN),
    ],
)
def test_what_does_not_say_it_is_unknown(one: BaseTool, model: str) -> None:
    assert model_behind(one) == model


@given(st.from_regex(r"[a-z][a-z:.-]{0,20}", fullmatch=True), st.text(st.characters(exclude_characters="\n")))
def test_the_model_in_what_a_search_declares(provider: str, model: str) -> None:
    assert model_in(SearchResult([], provider, model).declared()) == model
