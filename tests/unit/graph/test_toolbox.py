"""The available tools of a run: installed, granted and distinguishable."""

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime

from agentflow.graph import toolbox
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes import planner
from agentflow.tools.encyclopedia.corpus import Passage
from agentflow.tools.encyclopedia.corpus_build import build
from agentflow.tools.external import SpecError
from tests.failing import fails
from tests.scripted import PLAN, Script, question

EXTERNAL = f"{__name__}:weather"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


async def test_a_context_alone_grants_nothing() -> None:
    """It may come from anyone who reaches the server; a spec runs code."""
    for spec in (EXTERNAL, "os:getcwd", f"mcp:stdio:{sys.executable} -c pass", "mcp:http://127.0.0.1:1/mcp"):
        with fails(ModelError, "not_granted", spec, configuration=True):
            await Toolbox().available_tools(Context(tools=["base_generator", spec]))


def stock(article: str) -> int:
    """How many pieces of an article are in the warehouse."""
    return len(article)


async def price(article: str) -> int:
    """What an article costs."""
    return len(article)


async def test_functions_are_tools() -> None:
    available = await Toolbox([stock, price]).available_tools(Context(tools=["base_generator"]))
    assert list(available.tools) == ["base_generator", "stock", "price"]
    assert available.cards["stock"].description == stock.__doc__
    assert [await found.ainvoke({"article": "abc"}) for found in list(available.tools.values())[1:]] == [3, 3]


@pytest.mark.parametrize(
    "wrong", [weather, "weather", {"type": "web_search"}, 3, None, stock, [3], [None], [{"type": "web_search"}], [str],
              [[weather]], [lambda x: x]],
)  # fmt: skip
def test_what_is_no_tool_is_an_error_that_names_it(wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        build_graph(wrong)
    assert repr(wrong[0] if isinstance(wrong, list) else wrong)[:60] in str(caught.value)


@tool
def stated(city: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Needs LangGraph's ToolNode."""
    return city


@tool
def running(runtime: ToolRuntime) -> str:
    """Needs it, too."""
    return "Oslo"


@tool
def known(city: str, call: Annotated[str, InjectedToolCallId], user: Annotated[str, InjectedToolArg] = "x") -> str:
    """Needs nothing."""
    return city


def test_a_tool_that_can_never_be_called_is_an_error_that_names_the_argument() -> None:
    Toolbox(
        [
            known,
            StructuredTool(name="json", description="d", args_schema={"type": "object", "properties": {}}, func=print),
        ]
    )
    for one, argument in ((stated, "state"), (running, "runtime")):
        with pytest.raises(TypeError, match=f"{one.name} needs {argument}"):
            build_graph([one])


async def test_the_operator_grants_and_whoever_builds_the_graph_enables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Context(tools=["base_generator"])
    monkeypatch.setenv("AGENTFLOW_TOOLS", f"some.other:tool, {EXTERNAL}")
    granted = await Toolbox().available_tools(Context(tools=["base_generator", EXTERNAL]))
    assert list(granted.tools) == ["base_generator", "weather"]
    assert list((await Toolbox().available_tools(base)).tools) == ["base_generator"]
    monkeypatch.delenv("AGENTFLOW_TOOLS")
    built = await Toolbox([EXTERNAL]).available_tools(base)
    assert list(built.tools) == list(built.cards) == ["base_generator", "weather"]


async def test_what_cannot_be_used_is_said_and_not_offered(caplog: pytest.LogCaptureFixture) -> None:
    box, context = Toolbox(), Context(tools=["base_generator", "google_search"])
    with caplog.at_level(logging.WARNING):
        available = await box.available_tools(context)
    assert list(available.tools) == ["base_generator"]
    assert list(available.unavailable) == ["google_search"]
    assert "google_search is not offered to the planner" in caplog.text
    assert "google_search" not in planner.describe_tools(available.cards.values())


async def test_what_comes_back_is_offered_and_what_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    box, context = Toolbox(), Context(tools=["base_generator", "google_search"])
    before = await box.available_tools(context)
    monkeypatch.setenv("TAVILY_API_KEY", "x")
    assert await box.available_tools(context) is before
    monkeypatch.setattr(toolbox, "RETRY_SECONDS", 0.0)
    after = await box.available_tools(context)
    assert list(after.tools) == ["base_generator", "google_search"]
    assert after.tools["base_generator"] is before.tools["base_generator"]
    assert await box.available_tools(context) is after


async def test_names_collide_clearly() -> None:
    with fails(ModelError, "ambiguous_name", "weather"):
        await Toolbox([weather, EXTERNAL]).available_tools(Context())
    both = await Toolbox([weather, f"my={EXTERNAL}"]).available_tools(Context(tools=["base_generator"]))
    assert list(both.tools) == ["base_generator", "my_weather", "weather"]
    with fails(SpecError, "bad_name"):
        build_graph([weather.model_copy(update={"name": "a\nb"})])
    with fails(SpecError, "ambiguous_name", "weather"):
        build_graph([weather, stock, weather.model_copy()])


async def test_a_tool_that_vanished_while_a_run_was_paused_is_a_failed_turn(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripted(planner=PLAN.replace("echo", "weather"), executor='{"city": "Oslo"}')
    offered = Toolbox.available_tools

    async def only_to_the_planner(self: Toolbox, context: Context) -> toolbox.AvailableTools:
        available = await offered(self, context)
        return toolbox.AvailableTools() if script.asked("planner") else available

    monkeypatch.setattr(Toolbox, "available_tools", only_to_the_planner)
    state = await build_graph([weather]).ainvoke(question(), context=Context(model=script.spec))
    assert state["memory"][0].action.result.output == "weather cannot be used any more"


async def test_a_corpus_is_read_off_the_event_loop(tmp_path: Path) -> None:
    """The development server refuses calls that block it."""
    blockbuster = pytest.importorskip("blockbuster")
    build(tmp_path / "passages.db", [Passage("Tarn", "Tarn is a country.")])
    context = Context(model="openai:m", tools=["wikipedia_search"], corpus=str(tmp_path / "passages.db"))
    with blockbuster.blockbuster_ctx():
        found = await Toolbox().available_tools(context)
    assert found.cards["wikipedia_search"].takes_question
