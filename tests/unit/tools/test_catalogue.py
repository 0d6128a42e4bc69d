"""The standard tools: which are built, whether they work here, and which language model answers from behind each."""

import pytest

from agentflow.tools.base_generator import prompt
from agentflow.tools.card import RUN, UNKNOWN, model_behind
from agentflow.tools.catalogue import OFFLINE_TOOLS, STANDARD_TOOLS, availability, standard_tool
from agentflow.tools.mcp.spec import SpecError
from agentflow.tools.search_settings import SearchSettings
from tests.failing import fails


async def ask(text: str) -> str:
    return f"answered: {text}"


async def test_the_named_tool_is_built_and_asks_the_given_model() -> None:
    tools = {name: standard_tool(name, ask, SearchSettings()) for name in ("python_coder", "base_generator")}
    assert {name: one.name for name, one in tools.items()} == {name: name for name in tools}
    assert await tools["base_generator"].ainvoke({"query": "hello"}) == f"answered: {prompt('hello')}"
    with fails(SpecError, "unknown_tool", "calculator", *STANDARD_TOOLS):
        standard_tool("calculator", ask, SearchSettings())
    assert "'calculator'" in (availability("calculator", SearchSettings()) or "")


# The model behind a tool.


def behind(search: SearchSettings) -> dict[str, str]:
    return {name: model_behind(standard_tool(name, ask, search)) for name in STANDARD_TOOLS}


def test_the_standard_tools_all_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"base_generator": RUN, "python_coder": "", "wikipedia_search": "", "google_search": "", "web_search": RUN}
    assert behind(SearchSettings()).items() >= said.items()
    assert behind(SearchSettings(corpus="http://127.0.0.1:9/retrieve"))["wikipedia_search"] == UNKNOWN
    assert behind(SearchSettings(engine="gemini:gemini-2.5-pro"))["google_search"] == "gemini (gemini-2.5-pro)"
    assert behind(SearchSettings(engine="serper"))["google_search"] == ""
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert behind(SearchSettings())["google_search"].startswith("gemini (")
    assert set(OFFLINE_TOOLS) < set(STANDARD_TOOLS)
