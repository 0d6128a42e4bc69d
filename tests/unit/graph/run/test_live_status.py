"""The status file next to a trace during a run, and the costs known afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentflow.cli import app
from agentflow.graph.run import live_status
from agentflow.graph.run.live_status import SUFFIX, LiveStatusFile
from agentflow.graph.run.trace import Trace
from tests.scripted import GUESS, Script


def test_solve_shows_each_module_and_turn_until_the_trace_has_the_trace(
    scripted: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scripted(**GUESS)
    trace, written = tmp_path / "first.jsonl", list[str]()
    show = LiveStatusFile.show

    def spied(self: LiveStatusFile, event: Any) -> None:
        show(self, event)
        written[:] = (tmp_path / f"first.jsonl{SUFFIX}").read_text().splitlines()

    monkeypatch.setattr(live_status.LiveStatusFile, "show", spied)
    done = CliRunner().invoke(app, ["solve", "How so?", "--trace", str(trace), "--max-turns", "3"])
    assert done.exit_code == 0, done.output
    opening, *rest = map(json.loads, written)
    assert opening == {"question": "How so?", "max_turns": 3}
    modules = [line["module"] for line in rest if "module" in line]
    assert modules[:4] == ["analyst", "planner", "executor", "verifier"]
    assert [line["turn"] for line in rest if "sub_goal" in line] == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"first.jsonl", "first.calls.jsonl"}
    usage = Trace.model_validate_json(trace.read_text()).usage
    assert {"analyst", "planner", "executor", "verifier", "generator"} <= set(usage.seconds)


def test_what_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    with LiveStatusFile(tmp_path / "no folder" / "first.jsonl", "How so?", 3):
        assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_begun_anew(tmp_path: Path) -> None:
    left = tmp_path / f"first.jsonl{SUFFIX}"
    left.write_text("old\n")
    with LiveStatusFile(tmp_path / "first.jsonl", "How so?", 3):
        assert json.loads(left.read_text())["question"] == "How so?"
