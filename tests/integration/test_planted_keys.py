"""Keys are planted wherever one can come from, and looked for in everything that a run leaves behind.

They are in the environment, in a question, in what a tool returns, in a model's reply, in the body of an error and
before the @ of a URL. Every one of them has "planted" in it, and no file, page, span, log line or request to a tracing
service may have.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr
from pytest_httpserver import HTTPServer

from agentflow import Context, build_graph, tracing
from agentflow.graph.run.trace import append
from agentflow.graph.state import InputState
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.tools import redaction
from tests.command_line import call
from tests.fake_langsmith import FakeLangSmith
from tests.fake_openai import FakeOpenAI, Reply, completion
from tests.leaky import PLANTED, VARIABLE, leak
from tests.otlp import Receiver
from tests.scripted import modules
from tests.trainings import rollout
from tests.waiting import LAST_RESORT

pytest.importorskip("openinference.instrumentation.langchain", reason="the extra otel is not installed")

TOOL = "tests.leaky:leak"
SAID = ", ".join(PLANTED.values())


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())
    monkeypatch.setattr("agentflow.graph.tracing.otlp.FLUSH_SECONDS", LAST_RESORT)
    for name in [*os.environ]:
        if name.startswith(("OTEL_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    monkeypatch.setenv(VARIABLE, "planted in the environment")
    monkeypatch.setenv("VLLM_API_KEY", "planted-key-of-the-endpoint")
    monkeypatch.setenv("LANGSMITH_API_KEY", "planted-key-of-langsmith")


def reply(body: dict[str, Any]) -> Reply:
    """A model that repeats every key, and a server that repeats its own; on the second question it fails."""
    if "second" in json.dumps(body["messages"]):
        return 400, {"error": {"message": f"bad key planted-key-of-the-endpoint, {SAID}"}}
    return modules(
        planner=f"Sub-Goal: use {SAID}\nTool: leak\nContext: {SAID}",
        executor=json.dumps({"text": SAID}),
        verifier=f"Analysis: It said {SAID}.\nVerdict: stop",
        generator=f"Answer: planted in the environment, {SAID}",
        analyst=SAID,
        tools=SAID,
    )(body)


def without_keys(artefacts: dict[str, str | bytes]) -> None:
    for name, content in artefacts.items():
        text = content.decode(errors="replace") if isinstance(content, bytes) else content
        assert text, f"{name} is there, and has something in it"
        at = text.find("planted")
        assert at < 0, f"{name}: ...{text[max(0, at - 80) : at + 60]}..."


def test_no_artefact_has_a_key(tmp_path: Path, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    langsmith = FakeLangSmith(httpserver)
    monkeypatch.setenv("LANGSMITH_ENDPOINT", langsmith.url)
    rows, out, spans, trace, page = (
        tmp_path / name for name in ("rows.jsonl", "out", "spans.jsonl", "trace", "report.html")
    )
    rows.write_text(
        "".join(
            json.dumps({"question": f"The {which} question, with {SAID}?", "answer": "b"}) + "\n"
            for which in ("first", "second")
        )
    )
    with Receiver() as receiver, FakeOpenAI(reply) as server:
        run = ["--model", f"vllm:any@{server.base_url}", "--tools", TOOL, "--max-turns", "1"]
        watched = ("--tracing", f"otel:{receiver.url},langsmith")
        solved = call("solve", f"What is {SAID}?", *run, *watched, "--trace", str(trace), "--usage")
        as_json = call("solve", f"What is {SAID}?", *run, "--json")
        failed = call("solve", f"The second {SAID}?", *run)
        written = ("--tracing", f"otel:{spans},langsmith")
        evaluated = call("eval", "bamboogle", "--file", str(rows), "--out", str(out), *run, *written)
        reported = call("eval", "report", str(out), "--out", str(page))
        receiver.wait_for("AgentFlow", 60.0)
    assert [done.exit_code for done in (solved, as_json, failed, evaluated, reported)] == [0, 0, 1, 0, 0]
    assert "***" in solved.stdout
    rollouts = tmp_path / "rollouts.jsonl"
    broken = rollout(1, "train", "t", 0.0, status=RolloutStatus.CRASHED, question=SAID)
    append(rollouts, broken.model_copy(update={"error": f"planted in the environment {SAID}"}))
    without_keys(
        {
            "solve's stdout": solved.stdout,
            "solve's stderr": solved.stderr or "empty",
            "solve's JSON": as_json.stdout,
            "the error's line": failed.stderr,
            "the turns before the error": failed.stdout or "none",
            "eval's stdout": evaluated.stdout,
            "eval's stderr": evaluated.stderr or "empty",
            "the file of spans": spans.read_text(),
            "the trace": trace.read_text(),
            "the report": page.read_text(),
            "a training's rollouts": rollouts.read_text(),
            **{path.name: path.read_text() for path in out.iterdir()},
            **{f"spans {number}": body for number, body in enumerate(receiver.bodies)},
            **{f"LangSmith {number}": body for number, body in enumerate(langsmith.bodies) if body},
        }
    )
    assert any(b"gen_ai.output.messages" in body for body in receiver.bodies), "the spans had content to be kept clean"
    assert any(run["outputs"] for run in langsmith.runs if run["name"] == "AgentFlow"), "and so had LangSmith's runs"


@tool
def failing(text: str) -> str:
    """Fail, with the secrets that this process can see."""
    raise ValueError(f"no {SAID}, {os.environ[VARIABLE]} in {text}")


class Stopped(BaseException):
    """An error that is no Exception."""


def stop(_: object) -> None:
    raise Stopped(SAID)


@pytest.mark.parametrize("content", [True, False])
def test_no_span_of_an_agent_of_others_has_a_key(content: bool) -> None:
    """The library tells spans inputs, parameters, tools, metadata and errors, of which any may hold a key."""
    asked = {"id": "c", "type": "function", "function": {"name": "failing", "arguments": json.dumps({"text": SAID})}}
    body = completion("any", SAID)
    body["choices"][0]["message"]["tool_calls"] = [asked]
    with Receiver() as receiver, FakeOpenAI(lambda _: (200, body)) as server:
        model = ChatOpenAI(
            model="any",
            base_url=server.base_url,
            api_key=SecretStr("planted-key-of-the-endpoint"),
            stop_sequences=[SAID],
            model_kwargs={"extra_headers": {"X-API-Key": "planted-1234", "From": PLANTED["a URL"]}, "user": SAID},
        )
        agent = create_agent(model, [failing], system_prompt=SAID, name="planted in the environment")
        config: Any = {"metadata": {"thread_id": SAID, "token": "planted-5678"}, "run_name": f"run {SAID}"}
        with tracing(f"otel:{receiver.url}", content=content):
            with pytest.raises(ValueError, match="planted"):
                agent.invoke({"messages": [("user", json.dumps({"asked": f'"{SAID}"'}))]}, config)
            with pytest.raises(Stopped):
                RunnableLambda(stop).invoke(SAID)
        receiver.wait_for("stop", 60.0)
    without_keys({f"spans {number}": body for number, body in enumerate(receiver.bodies)})
    spans = {span.name: span for span in receiver.spans}
    assert ("input.value" in spans["failing"].attributes) is content
    assert [spans[name].attributes["error.type"] for name in ("failing", "stop")] == ["ValueError", "Stopped"]
    assert spans["failing"].status.startswith("no sk-***")
    assert "***" in spans["ChatOpenAI"].attributes["llm.invocation_parameters"]


async def test_a_checkpoint_has_what_memory_needs_and_no_key_of_ours() -> None:
    """Memory is no artefact for others: what a tool itself returned stays, since a later step may need it."""
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    with FakeOpenAI(reply) as server:
        context = Context(model=f"vllm:any@{server.base_url}", tools=["base_generator"], max_turns=1)
        graph = build_graph([leak], checkpointer=saver)
        state = await graph.ainvoke(InputState(messages=[HumanMessage("q")]), config, context=context)
    output = state["memory"][0].action.result.output
    assert "planted in the environment" not in output
    assert PLANTED["a URL"] in output
