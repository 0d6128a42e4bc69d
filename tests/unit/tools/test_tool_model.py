"""Every tool says which language model answers from behind it, or is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, tool

from agentflow.tools.catalogue import OFFLINE_TOOLS, STANDARD_TOOLS, standard_tools
from agentflow.tools.google_search import google_search
from agentflow.tools.providers.provider import SearchResult, model_in
from agentflow.tools.providers.serper import Serper
from agentflow.tools.search_settings import SearchSettings
from agentflow.tools.tool_model import RUN, UNKNOWN, model_behind


@tool
def stock(article: str) -> str:
    """Looks up the stock."""
    return article


def saying(model: object) -> BaseTool:
    return stock.model_copy(update={"metadata": {"agentflow": {"model": model}}})


async def ask(prompt: str) -> str:
    return prompt


def behind(search: SearchSettings) -> dict[str, str]:
    return {name: model_behind(one) for name, one in standard_tools(STANDARD_TOOLS, ask, search).items()}


def test_the_standard_tools_all_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    said = {"base_generator": RUN, "python_coder": "", "wikipedia_search": "", "google_search": "", "web_search": RUN}
    assert behind(SearchSettings()).items() >= said.items()
    assert behind(SearchSettings(pages="passages"))["web_search"] == ""
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


@pytest.mark.parametrize("provider", ["tavily", "live", "atlas", "/data/wiki (2018).sqlite", "/data/wiki (2018)", ""])
def test_a_corpus_is_no_model(provider: str) -> None:
    assert model_in(provider) == ""
