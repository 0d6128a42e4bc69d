"""Operations as callbacks tell them: what contains what, in which turn, and how it ended."""

import asyncio
import re
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, tool

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.tracing.observer import Observer
from agentflow.graph.tracing.operation import Operation
from agentflow.tools.result import ErrorClass, ToolFailure
from tests.clock import HOUR, Clock
from tests.scripted import Script, Scripted, echo, question


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


def root_of(operation: Operation) -> Operation:
    return root_of(operation.parent) if operation.parent else operation


@tool
def broken(text: str) -> str:
    """Fails."""
    raise ToolFailure(ErrorClass.EMPTY_RESULT, "nothing there")


async def observed(script: Scripted, tool: BaseTool = echo, **settings: Any) -> Kept:
    """Return the sink of a run, which has left no operation open."""
    kept = Kept()
    observer = Observer(kept)
    script.replies["planner"] = f"Sub-Goal: repeat it\nTool: {tool.name}\nContext: hello"
    context = Context(model=script.spec, tools=["base_generator"], **settings)
    try:
        await build_graph([tool]).ainvoke(question(), {"callbacks": [observer]}, context=context)
    finally:
        assert observer._open == {}
    return kept


async def test_runs_at_the_same_time_do_not_mix(scripted: Script) -> None:
    kept = Kept()
    graph, context, observer = build_graph([echo]), Context(model=scripted().spec), Observer(kept)
    asked = [question(f"{number}?") for number in range(32)]
    await asyncio.gather(*(graph.ainvoke(one, {"callbacks": [observer]}, context=context) for one in asked))
    assert len(kept.of("run")) == 32
    for run in kept.of("run"):
        own = [one for one in kept.ended if root_of(one) is run]
        assert len(own) == len(kept.ended) / 32
        texts = [str(message.content) for one in own for message in one.prompt]
        assert len({number for text in texts for number in re.findall(r"Question: (\d+)", text)}) == 1


async def test_how_a_tool_failed_is_its_error_class(scripted: Script) -> None:
    kept = await observed(scripted(), broken)
    assert [one.error for one in kept.of("tool_call")] == ["empty_result"]
    assert [one.error for one in kept.of("module") if one.module == "executor"] == ["empty_result"]
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


async def test_a_run_whose_model_fails_has_failed(scripted: Script) -> None:
    def fail(_: Any) -> str:
        raise ModelError("down")

    with pytest.raises(ModelError):
        await observed(scripted(executor=fail))


def test_without_asyncio_the_same_is_seen(scripted: Script) -> None:
    kept = Kept()
    context = Context(model=scripted().spec)
    build_graph([echo]).invoke(question(), {"callbacks": [Observer(kept)]}, context=context)
    assert [one.kind for one in kept.ended if one.parent is None] == ["run"]
    assert len(kept.of("module")) == 5


def test_chains_of_others_are_runs_too() -> None:
    kept = Kept()
    chain = RunnableLambda(lambda text: [HumanMessage(text)]) | FakeListChatModel(responses=["a"])
    chain.invoke("q", {"callbacks": [Observer(kept)]})
    [run] = kept.of("run")
    assert [(one.kind, one.parent) for one in kept.ended if one is not run] == [("model_call", run)]
