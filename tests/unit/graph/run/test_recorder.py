"""The calls of a run: complete, in order, each message once, without secrets."""

import asyncio
import json
from pathlib import Path

import pytest

from agentflow.evals.results_store import Records
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.recorder import RunCalls, calls_file, hash_of
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, append
from tests.runs import record
from tests.scripted import CONTINUE, STOP, Script, Scripted, echo

MODULES = ("planner", "executor", "verifier")


def played(script: Scripted) -> Trace:
    context = Context(model=script.spec)
    return asyncio.run(run(build_graph([echo]), Task.from_question("How so?"), context))


def made(trace: Trace) -> RunCalls:
    assert trace.calls_made
    return trace.calls_made


def test_every_module_and_call_is_there_by_start(scripted: Script) -> None:
    script = scripted(verifier=[CONTINUE, STOP])
    trace = played(script)
    calls, spans = made(trace), made(trace).spans
    modules = [(span.name, span.turn) for span in spans if span.kind == "module"]
    assert modules == [
        ("analyst", None),
        *((name, turn) for turn in (1, 2) for name in MODULES),
        ("generator", None),
    ]
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    for span in spans:
        if span.parent is not None:
            around = spans[span.parent]
            assert around.start <= span.start <= around.start + around.seconds <= trace.seconds + 0.1
    assert [span.name for span in spans if span.kind == "tool_call"] == ["echo", "echo"]
    asked = [span for span in spans if span.kind == "model_call"]
    assert len(asked) == trace.usage.calls == len(script.calls)
    for span, (module, conversation) in zip(asked, script.calls, strict=True):
        assert span.module == module
        assert [calls.messages[number].text for number in span.prompt] == [one.text for one in conversation]
    assert [calls.messages[span.replies[0]].text for span in asked if span.module == "verifier"] == [CONTINUE, STOP]
    assert len(set(calls.messages)) == len(calls.messages)


def test_a_call_that_fails_is_there_with_its_error(scripted: Script) -> None:
    def fail(_: object) -> str:
        raise RuntimeError("broken")

    trace = played(scripted(planner=fail))
    assert trace.status == "failed"
    last = made(trace).spans[-1]
    assert (last.kind, last.module, last.error, last.replies) == ("model_call", "planner", "RuntimeError", [])
    assert last.prompt


def test_a_line_names_its_trace_and_has_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    script = Scripted(planner="Sub-Goal: very-secret-value\nTool: echo\nContext: hello")
    script.install(monkeypatch)
    path = tmp_path / "first.jsonl"
    append(path, played(script))
    [line] = calls_file(path).read_bytes().splitlines()
    assert json.loads(line)["trace"] == hash_of(path.read_bytes())
    assert b"very-secret-value" not in line
    assert b"Sub-Goal: ***" in line
    assert "calls_made" not in json.loads(path.read_bytes())


def test_records_in_memory_have_none() -> None:
    records, one = Records(), record(0)
    records.add(one.model_copy(update={"calls_made": RunCalls(spans=[], messages=[])}))
    assert records.by_key[one.key] == one
