"""The trace's line: complete, safe to append, without secrets."""

from pathlib import Path

import pytest

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, append, cut_off, to_line


def test_a_line_reads_back_as_the_trace() -> None:
    trace = Trace(task=Task.from_question("q\nü \x1b"), answer="a", status="answered", seconds=1.5)
    assert "\n" not in to_line(trace)
    assert Trace.model_validate_json(to_line(trace)) == trace
    assert "error" not in trace.model_dump()


def test_a_failed_trace_says_why() -> None:
    assert Trace(task=Task.from_question("q"), status="failed", error="down").model_dump()["error"] == "down"


def test_finish_reasons_are_kept_where_a_server_gives_them() -> None:
    trace = Trace(task=Task.from_question("q"), status="answered", finish_reasons={"generator": ["stop", "length"]})
    assert Trace.model_validate_json(to_line(trace)) == trace
    assert cut_off(trace.finish_reasons) == ["generator"]
    assert cut_off({"planner": ["length", "stop"]}) == []
    assert "finish_reasons" not in Trace(task=Task.from_question("q"), status="answered").model_dump()


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET"])
def test_secrets_of_the_environment_are_struck_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, 'top"secret-value')
    line = to_line(Trace(task=Task.from_question("q"), answer='it is top"secret-value.', status="answered"))
    assert Trace.model_validate_json(line).answer == "it is ***."


def test_short_values_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "EMPTY")
    assert "EMPTY" in to_line(Trace(task=Task.from_question("EMPTY"), status="failed"))


def test_appending_after_a_torn_line_starts_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"torn')
    trace = Trace(task=Task.from_question("q"), status="answered")
    append(path, trace)
    append(path, trace)
    assert path.read_text() == '{"torn\n' + f"{to_line(trace)}\n" * 2
