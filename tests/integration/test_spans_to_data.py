"""Spans that OpenInference really wrote become tasks: of our own graph, and of an agent of others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentflow import Context, build_graph, tracing
from agentflow.rl.traces.episode import Dropped
from agentflow.rl.traces.otel import read

pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")


class Scripted(GenericFakeChatModel):
    """A model that replies as scripted and takes tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:  # type: ignore[override]
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools])


def agent_of_others(*replies: AIMessage, **more: Any) -> Any:
    return create_agent(Scripted(messages=iter(replies)), **more)


def calling(id: str, name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id}])


@contextmanager
def traced_by_the_library_alone(path: Path) -> Iterator[None]:
    """Trace as other people's programs do, without OpenTelemetry's own attributes."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from agentflow.graph.tracing.otlp import OtlpFile

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OtlpFile(str(path))))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    try:
        yield
    finally:
        LangChainInstrumentor().uninstrument()


def test_a_run_of_our_own_graph(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    with tracing(f"otel:{path}", content=True):
        state = build_graph().invoke({"messages": [("user", "How many feet are 3 yards?")]}, context=Context())
    [found] = read(path, Dropped(list))
    assert (found.question, found.answer, found.inputs) == ("How many feet are 3 yards?", state["answer"], None)


@pytest.mark.parametrize("alone", [True, False])
def test_an_agent_with_another_as_its_tool(alone: bool, tmp_path: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def research(question: str) -> str:
        """Ask the researcher."""
        state = researcher.invoke({"messages": [("user", question)]})
        return str(state["messages"][-1].text)

    sum_of = calling("c2", "add", a=1, b=2)
    researcher = agent_of_others(sum_of, AIMessage("3 in all"), tools=[add], name="researcher")
    asked, answered = calling("c1", "research", question="1 and 2?"), AIMessage("It is 3.")
    agent = agent_of_others(asked, answered, tools=[research], system_prompt="Be brief.")
    path, dropped = tmp_path / "spans.jsonl", Dropped(list)
    with traced_by_the_library_alone(path) if alone else tracing(f"otel:{path}", content=True):
        agent.invoke({"messages": [("user", "What is 1 + 2?")]})
    [found] = read(path, dropped)
    assert (found.question, found.answer, found.inputs, dropped) == ("What is 1 + 2?", "It is 3.", None, {})


def test_a_run_without_content_has_no_question(tmp_path: Path) -> None:
    path, dropped = tmp_path / "spans.jsonl", Dropped(list)
    with tracing(f"otel:{path}"):
        agent_of_others(AIMessage("So.")).invoke({"messages": [("user", "How?")]})
    [found] = read(path, dropped)
    assert (found.question, found.answer) == ("", "")
