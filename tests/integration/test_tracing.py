"""Traces over the wire: the data that a collector and LangSmith receive, and failures if nothing listens."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from langsmith import Client, run_trees, utils
from pytest_httpserver import HTTPServer

from agentflow import Context, Task, build_graph, load_model, tracing
from agentflow.graph.models.loading import called_by, complete
from agentflow.graph.run.runner import run
from agentflow.graph.state import InputState
from agentflow.tools.result import ErrorClass, ToolFailure
from tests.cases import table
from tests.fake_langsmith import FakeLangSmith
from tests.fake_openai import FakeOpenAI
from tests.otlp import Receiver, Span
from tests.processes import python
from tests.scripted import Scripted, modules
from tests.waiting import LAST_RESORT

pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")


NOBODY = "http://127.0.0.1:9"
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("OTEL_", "LANGSMITH_", "LANGCHAIN_", "TRACEPARENT")):
            monkeypatch.delenv(name)
    monkeypatch.setattr("agentflow.graph.tracing.otlp.FLUSH_SECONDS", LAST_RESORT)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    script = Scripted(
        planner="Sub-Goal: guess\nTool: base_generator\nContext: hello",
        executor='{"query": "hello"}',
        tools="a guess of mine",
    )
    script.install(monkeypatch)
    return script


async def ask(spec: str, question: str = "a question of mine", **metadata: Any) -> None:
    context = Context(model=spec, tools=["base_generator"])
    await build_graph().ainvoke(InputState(messages=[HumanMessage(question)]), {"metadata": metadata}, context=context)


def tree(spans: list[Span], parent: str = "", depth: int = 0) -> list[str]:
    """Names, indented by what contains them."""
    found = []
    for span in spans:
        if span.parent == parent:
            found += [f"{'  ' * depth}{span.name}", *tree(spans, span.id, depth + 1)]
    return found


def test_spans_follow_both_conventions(script: Scripted) -> None:
    with Receiver() as receiver, FakeOpenAI(modules(**script.replies)) as server:  # type: ignore[arg-type]
        with tracing(f"otel:{receiver.url}/"):
            asyncio.run(ask(f"vllm:any@{server.base_url}", thread_id="t-1"))
        receiver.wait_for("AgentFlow", SECONDS)
    chat = "EndpointModel"
    assert tree(receiver.spans) == [
        "AgentFlow",
        *("  analyst", f"    {chat}"),
        *("  planner", f"    {chat}"),
        *("  executor", f"    {chat}", "    base_generator", f"      {chat}"),
        *("  verifier", f"    {chat}"),
        *("  generator", f"    {chat}"),
    ]
    asked = next(span for span in receiver.spans if span.attributes.get("agentflow.module") == "planner")
    told = dict(asked.attributes)
    assert json.loads(told.pop("metadata"))["langgraph_node"] == "planner"
    assert json.loads(told.pop("llm.invocation_parameters"))["temperature"] == 0.0
    assert told == dict(table(__file__, "chat_span.txt"))
    [root] = [span for span in receiver.spans if not span.parent]
    assert (root.attributes["gen_ai.operation.name"], root.attributes["openinference.span.kind"]) == (
        "invoke_agent",
        "AGENT",
    )
    assert {span.service for span in receiver.spans} == {"agentflow"}
    assert not any(b"of mine" in body for body in receiver.bodies), "content is opt-in"


@pytest.mark.parametrize("by", ["environment", "current span", "the application's provider"])
def test_a_caller_s_trace_goes_on(by: str, script: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace as api
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    if by == "environment":
        monkeypatch.setenv("TRACEPARENT", f"00-{trace}-{span}-01")
    with Receiver() as receiver:
        theirs, to = TracerProvider(shutdown_on_exit=False), f"otel:{receiver.url}"
        if by == "the application's provider":
            theirs.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces")))
            monkeypatch.setattr(api, "get_tracer_provider", lambda: theirs)
            to = "otel"
        with tracing(to):
            if by == "environment":
                asyncio.run(ask(script.spec))
            else:
                with theirs.get_tracer("theirs").start_as_current_span("theirs") as own:
                    asyncio.run(ask(script.spec))
                trace, span = f"{own.get_span_context().trace_id:032x}", f"{own.get_span_context().span_id:016x}"
        receiver.wait_for("AgentFlow", SECONDS)
    [root] = [found for found in receiver.spans if found.name == "AgentFlow"]
    assert (root.trace, root.parent) == (trace, span)


def test_a_failed_tool_has_its_error_class_and_a_pause_for_a_person_is_no_error(tmp_path: Path) -> None:
    @tool
    def broken(text: str) -> str:
        """Fails."""
        raise ToolFailure(ErrorClass.EMPTY_RESULT, "nothing there")

    def pause(_: Any) -> None:
        interrupt("go on?")

    graph = StateGraph(MessagesState).add_node("pause", pause).add_edge(START, "pause")
    with Receiver() as receiver, tracing(f"otel:{receiver.url}"):
        with pytest.raises(ToolFailure):
            broken.invoke("a text")
        graph.compile(InMemorySaver()).invoke({"messages": []}, {"configurable": {"thread_id": "1"}})
    spans = {span.name: span for span in receiver.spans}
    assert (spans["broken"].attributes["error.type"], spans["broken"].status) == ("empty_result", "nothing there")
    assert ("error.type" in spans["pause"].attributes, spans["pause"].status) == (False, "")


def test_a_collector_that_is_down_costs_a_line_and_a_moment() -> None:
    command = ["solve", "How many feet are 3 yards?", "--model", "atlas-oracle", "--tracing", f"otel:{NOBODY}"]
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}  # what the exporter would wait for by itself
    done = python("-m", "agentflow", *command, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Answer: 9" in done.stdout
    assert re.fullmatch(rf"\d+ spans were lost: no collector took them at {NOBODY}; is it running\?\n", done.stderr)


def test_langsmith_gets_the_runs_of_a_project(
    script: Scripted, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    langsmith = FakeLangSmith(httpserver)
    monkeypatch.setenv("LANGSMITH_ENDPOINT", langsmith.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_pt_test")
    with tracing("langsmith:mine"):
        asyncio.run(ask(script.spec))
    asyncio.run(ask(script.spec))  # not any more
    assert langsmith.keys == {"lsv2_pt_test"}
    assert {run["session_name"] for run in langsmith.runs} == {"mine"}
    names = [run["name"] for run in langsmith.runs]
    assert names.count("AgentFlow") == 1
    assert {"planner", "base_generator"} <= set(names)


KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


@pytest.fixture
def switched_on(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLangSmith]:
    """LangSmith, where LangChain's own switch is on, in a process without a client yet."""
    server = FakeLangSmith(httpserver)
    monkeypatch.setattr(run_trees, "_CLIENT", None)
    for name, value in (("TRACING", "true"), ("ENDPOINT", server.url), ("API_KEY", "lsv2_pt_test")):
        monkeypatch.setenv(f"LANGSMITH_{name}", value)
    utils.get_env_var.cache_clear()
    yield server
    utils.get_env_var.cache_clear()


async def _agent(script: Scripted) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGSMITH_TRACING", "false")
        graph = build_graph()
    context = Context(model=script.spec, tools=["base_generator"])
    await graph.ainvoke(InputState(messages=[HumanMessage(f"my key is {KEY}")]), context=context)


async def _chain_around_an_agent(script: Scripted) -> None:
    build_graph()
    await RunnableLambda(str.upper).ainvoke(KEY)


async def _graph_of_others(script: Scripted) -> None:
    graph = StateGraph(MessagesState).add_node("only", lambda state: {}).add_edge(START, "only").compile()
    await run(graph, Task.from_question(KEY))


async def _model(script: Scripted) -> None:
    await complete(load_model(script.spec), [HumanMessage(KEY)], called_by("tools"))


@pytest.mark.parametrize("way", [_agent, _chain_around_an_agent, _graph_of_others, _model])
def test_langchain_s_own_switch_sends_no_secret_either(
    way: Callable[[Scripted], Coroutine[Any, Any, None]], script: Scripted, switched_on: FakeLangSmith
) -> None:
    asyncio.run(way(script))
    wait_for_all_tracers()
    assert any("***" in str(run) for run in switched_on.runs)
    assert not [body for body in switched_on.bodies if KEY.encode() in body]


def test_a_client_of_the_program_that_strikes_out_nothing_is_named(
    switched_on: FakeLangSmith, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_trees, "_CLIENT", Client(auto_batch_tracing=False))
    build_graph()
    assert [record.name for record in caplog.records] == ["agentflow.tools.langchain_tracing"]
    monkeypatch.setattr(run_trees, "_CLIENT", Client(auto_batch_tracing=False, anonymizer=lambda data: data))
    build_graph()
    assert len(caplog.records) == 1


def test_the_served_graph_is_traced_as_the_environment_says(tmp_path: Path) -> None:
    program = (Path(__file__).parent / "cases/traced.py.txt").read_text()
    spans = tmp_path / "spans.jsonl"
    done = python("-c", program, env={**os.environ, "AGENTFLOW_TRACING": f"otel:{spans}"})
    assert done.returncode == 0, done.stderr
    assert '"name": "AgentFlow"' in spans.read_text()
