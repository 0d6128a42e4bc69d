"""Operations as callbacks tell them: what contains what, in which turn, and how it ended."""

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, tool

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import InputState
from agentflow.graph.tracing import setup
from agentflow.graph.tracing.operation import Operation
from agentflow.tools.result import ErrorClass, ToolFailure
from tests.clock import HOUR, Clock
from tests.scripted import Script, Scripted, echo


class Kept:
    """A sink that records its operations."""

    def __init__(self) -> None:
        self.begun: list[Operation] = []
        self.ended: list[Operation] = []

    def begin(self, operation: Operation) -> None:
        self.begun.append(operation)

    def end(self, operation: Operation) -> None:
        self.ended.append(operation)

    def of(self, kind: str) -> list[Operation]:
        return [one for one in self.ended if one.kind == kind]


@tool
def broken(text: str) -> str:
    """Fails."""
    raise ToolFailure(ErrorClass.EMPTY_RESULT, "nothing there")


async def observed(script: Scripted, tool: BaseTool = echo, question: str = "q", **settings: Any) -> Kept:
    kept = Kept()
    plan = f"Sub-Goal: repeat it\nTool: {tool.name}\nContext: hello"
    script.replies["planner"] = plan
    context = Context(model=script.spec, tools=["base_generator"], **settings)
    with setup._observed_by(kept):
        await build_graph([tool]).ainvoke(
            InputState(messages=[HumanMessage(question)]), {"metadata": {"thread_id": question}}, context=context
        )
    return kept


async def test_runs_at_the_same_time_do_not_mix(scripted: Script) -> None:
    kept = Kept()
    graph, context = build_graph([echo]), Context(model=scripted().spec)

    async def ask(number: int) -> None:
        config: Any = {"metadata": {"thread_id": str(number)}}
        await graph.ainvoke(InputState(messages=[HumanMessage(f"{number}?")]), config, context=context)

    with setup._observed_by(kept):
        await asyncio.gather(*map(ask, range(32)))
    assert sorted(int(run.thread) for run in kept.of("run")) == list(range(32))
    for run in kept.of("run"):
        own = [one for one in kept.ended if one.root is run]
        assert len(own) == len(kept.ended) / 32
        assert {one.thread for one in own} == {run.thread}


async def test_how_a_tool_failed_is_its_error_class(scripted: Script) -> None:
    kept = await observed(scripted(), broken)
    assert [one.error for one in kept.of("tool_call")] == ["empty_result"]
    assert [one.error for one in kept.of("module") if one.module == "executor"] == ["empty_result"]
    assert [one.error for one in kept.of("turn")] == ["empty_result"]
    assert kept.of("run")[0].error == ""


async def test_a_tool_that_runs_out_of_time_ends_with_its_module(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LangChain reports a cancelled call from langchain-core 1.8 on, and as cancelled."""
    clock = Clock(monkeypatch)

    @tool
    async def slow(text: str) -> str:
        """Never ends."""
        return await clock.hang()

    kept = await observed(scripted(), slow, max_seconds=HOUR)
    [call] = kept.of("tool_call")
    assert call.error == "timeout"
    assert setup._observer()._open == {}


async def test_a_run_whose_model_fails_has_failed(scripted: Script) -> None:
    def fail(_: Any) -> str:
        raise ModelError("down")

    with pytest.raises(ModelError):
        await observed(scripted(executor=fail))
    assert setup._observer()._open == {}


def test_without_asyncio_the_same_is_seen(scripted: Script) -> None:
    kept = Kept()
    with setup._observed_by(kept):
        build_graph([echo]).invoke(InputState(messages=[HumanMessage("q")]), context=Context(model=scripted().spec))
    assert [one.kind for one in kept.ended if one.parent is None] == ["run"]
    assert len(kept.of("module")) == 5


def test_chains_of_others_are_runs_too() -> None:
    kept = Kept()
    chain = RunnableLambda(lambda text: [HumanMessage(text)]) | FakeListChatModel(responses=["a"])
    with setup._observed_by(kept):
        chain.invoke("q")
    [run] = kept.of("run")
    assert [(one.kind, one.parent) for one in kept.ended if one is not run] == [("model_call", run)]
