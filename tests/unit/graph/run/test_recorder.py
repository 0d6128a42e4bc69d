"""The calls of a run: complete, in order, each message once; and its line, safe to append. Neither has secrets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.recorder import RunCalls, calls_file, hash_of
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, append, to_line
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
    assert {"analyst", *MODULES, "generator"} <= set(trace.usage.seconds)


def test_a_call_that_fails_is_there_with_its_error(scripted: Script) -> None:
    def fail(_: object) -> str:
        raise RuntimeError("broken")

    trace = played(scripted(planner=fail))
    assert trace.status == "failed"
    last = made(trace).spans[-1]
    assert (last.kind, last.module, last.error, last.replies) == ("model_call", "planner", "RuntimeError", [])
    assert last.prompt


def test_a_line_names_its_trace_and_has_no_secrets(
    scripted: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    script = scripted(planner="Sub-Goal: very-secret-value\nTool: echo\nContext: hello")
    path = tmp_path / "first.jsonl"
    append(path, played(script))
    [line] = calls_file(path).read_bytes().splitlines()
    assert json.loads(line)["trace"] == hash_of(path.read_bytes())
    assert b"very-secret-value" not in line
    assert b"Sub-Goal: ***" in line
    assert "calls_made" not in json.loads(path.read_bytes())


@pytest.mark.parametrize(
    "fields",
    [
        {"answer": "a", "status": "answered", "seconds": 1.5},
        {"status": "failed", "error": "down"},
        {"status": "answered", "finish_reasons": {"generator": ["stop", "length"]}},
    ],
)
def test_a_line_reads_back_as_the_trace_and_holds_no_more_than_is_known(fields: dict[str, Any]) -> None:
    trace = Trace(task=Task.from_question("q\nü \x1b"), **fields)
    assert "\n" not in to_line(trace)
    assert Trace.model_validate_json(to_line(trace)) == trace
    assert {"error", "finish_reasons"} & set(trace.model_dump()) == {"error", "finish_reasons"} & set(fields)


def test_appending_after_a_torn_line_starts_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"torn')
    trace = Trace(task=Task.from_question("q"), status="answered")
    append(path, trace)
    append(path, trace)
    assert path.read_text() == '{"torn\n' + f"{to_line(trace)}\n" * 2
