import pytest
from langchain_core.tools import tool

from agentflow.tools.base_generator import prompt
from agentflow.tools.card import ToolCard
from agentflow.tools.catalogue import STANDARD_TOOLS, availability, standard_cards, standard_tools
from agentflow.tools.mcp.spec import SpecError
from agentflow.tools.search_settings import SearchSettings
from tests.failing import fails

CARDS = {
    "base_generator": (
        "Answers from the words of the request alone, without looking anything up or running code. "
        "Good for reading a fact out of a given text, rewording, and simple reasoning.",
        "Knows no fresh or rare facts and guesses when it does not know; unreliable at arithmetic.",
        [{"query": "Text: The code is 7. What is the code?"}],
        ["- query (string): What to answer, with all the text it needs."],
    ),
    "python_coder": (
        "Runs a Python 3 program and returns what it prints. "
        "Good for arithmetic, dates, units, counting, comparing, search over many cases.",
        "No network, no files kept, 10 seconds. The program must print its result and contain all its data.",
        [{"code": "print(12 * 7)"}],
        ["- code (string): The program."],
    ),
    "wikipedia_search": (
        "Looks up an encyclopedia by the name of a person, place, firm, work or topic and returns its article.",
        "Query by one exact name, not by a question; does not reason or combine articles.",
        [{"query": "Alan Turing"}],
        ["- query (string): One name."],
    ),
}


async def ask(text: str) -> str:
    return f"answered: {text}"


@pytest.mark.parametrize("name", CARDS)
def test_the_cards_that_the_checkpoints_were_trained_on_stay(name: str) -> None:
    """If this fails on purpose, the embedded model has to be trained again: its prompts hold these words."""
    card = standard_cards([name])[name]
    assert (card.description, card.limits, card.examples, card.describe_arguments()) == CARDS[name]


def test_the_prompt_that_the_checkpoints_were_trained_on_stays() -> None:
    """Changed text would be out of distribution for them."""
    assert prompt("Q") == "Answer the request below directly and briefly. Give only the answer.\n\nRequest: Q"


def test_every_card_is_short() -> None:
    for card in standard_cards(STANDARD_TOOLS).values():
        text = "\n".join(
            [card.name, card.description, card.limits, *card.describe_arguments(), *card.examples_as_json()]
        )
        assert len(text) < 4 * 200  # about four characters a token


def test_only_the_named_tools_are_built() -> None:
    tools = standard_tools(["python_coder", "base_generator"], ask, SearchSettings())
    assert list(tools) == ["python_coder", "base_generator"]
    assert all(tool.name == name for name, tool in tools.items())
    assert list(standard_tools(STANDARD_TOOLS, ask, SearchSettings())) == list(STANDARD_TOOLS)


def test_an_unknown_name_lists_the_tools() -> None:
    with fails(SpecError, "unknown_tool", "calculator", *STANDARD_TOOLS):
        standard_tools(["calculator"], ask, SearchSettings())
    assert "'calculator'" in (availability("calculator", SearchSettings()) or "")


async def test_the_generator_asks_the_model_that_it_was_given() -> None:
    generator = standard_tools(["base_generator"], ask, SearchSettings())["base_generator"]
    assert await generator.ainvoke({"query": "hello"}) == f"answered: {prompt('hello')}"


def test_availability_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("TAVILY_API_KEY", "SERPER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert [availability(name, SearchSettings()) for name in STANDARD_TOOLS if name != "google_search"] == [None] * 4
    assert availability("google_search", SearchSettings()) == (
        "set TAVILY_API_KEY (https://tavily.com), SERPER_API_KEY (https://serper.dev) or "
        "GEMINI_API_KEY (https://aistudio.google.com)"
    )
    monkeypatch.setenv("TAVILY_API_KEY", "x")
    assert availability("google_search", SearchSettings()) is None
    missing = availability("wikipedia_search", SearchSettings(corpus="/no/such.db"))
    assert "there is no corpus '/no/such.db'" in (missing or "")


def test_a_foreign_tool_gets_a_card() -> None:
    @tool
    def weather(city: str, days: int | None = None) -> str:
        """The weather of a city."""
        return city + str(days)

    card = ToolCard.of(weather)
    assert (card.name, card.description, card.limits) == ("weather", "The weather of a city.", "")
    assert card.describe_arguments() == ["- city (string)", "- days (integer | null, optional)"]
