import pytest

from agentflow.graph.context import DEFAULT_TOOLS
from agentflow.tools.base_generator import prompt
from agentflow.tools.catalogue import STANDARD_TOOLS, availability, standard_cards, standard_tools
from agentflow.tools.mcp.spec import SpecError
from agentflow.tools.search_settings import SearchSettings
from tests.failing import fails


async def ask(text: str) -> str:
    return f"answered: {text}"


def test_every_card_is_short() -> None:
    for card in standard_cards(STANDARD_TOOLS).values():
        text = "\n".join(
            [card.name, card.description, card.limits, *card.describe_arguments(), *card.examples_as_json()]
        )
        assert len(text) < 4 * 200  # about four characters a token


async def test_only_the_named_tools_are_built_and_ask_the_given_model() -> None:
    tools = standard_tools(["python_coder", "base_generator"], ask, SearchSettings())
    assert {name: one.name for name, one in tools.items()} == {name: name for name in tools}
    assert list(tools) == ["python_coder", "base_generator"]
    assert await tools["base_generator"].ainvoke({"query": "hello"}) == f"answered: {prompt('hello')}"
    with fails(SpecError, "unknown_tool", "calculator", *STANDARD_TOOLS):
        standard_tools(["calculator"], ask, SearchSettings())
    assert "'calculator'" in (availability("calculator", SearchSettings()) or "")


def test_availability_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert [availability(name, SearchSettings()) for name in DEFAULT_TOOLS] == [None] * len(DEFAULT_TOOLS)
    assert "TAVILY_API_KEY" in (availability("google_search", SearchSettings()) or "")
    monkeypatch.setenv("TAVILY_API_KEY", "x")
    assert availability("google_search", SearchSettings()) is None
    missing = availability("wikipedia_search", SearchSettings(corpus="/no/such.db"))
    assert "there is no corpus '/no/such.db'" in (missing or "")
