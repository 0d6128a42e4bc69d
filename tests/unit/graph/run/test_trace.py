"""The trace's line: complete, safe to append, without secrets."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, append, cut_off, to_line


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


def test_a_module_whose_last_reply_ended_early_is_cut_off() -> None:
    assert cut_off({"generator": ["stop", "length"], "planner": ["length", "stop"]}) == ["generator"]


def test_appending_after_a_torn_line_starts_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"torn')
    trace = Trace(task=Task.from_question("q"), status="answered")
    append(path, trace)
    append(path, trace)
    assert path.read_text() == '{"torn\n' + f"{to_line(trace)}\n" * 2
