"""`agentflow eval matrix`: each model with each agent in a folder of its own, and one page of all."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentflow.cli import app
from agentflow.evals.results_store import read

FOLDERS = {
    "agentflow_embedded_embedded-seed",
    "agentflow_embedded_embedded-trained",
    "direct_embedded_embedded-seed",
    "direct_embedded_embedded-trained",
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", "matrix", *map(str, arguments)])


def test_it_fills_and_goes_on_and_grows(tmp_path: Path) -> None:
    call = ["--planner", "embedded:seed", "--planner", "embedded:trained", "--agent", "agentflow", "--agent", "direct"]
    first = run("atlas", *call, "--limit", 1, "--out", tmp_path)
    assert first.exit_code == 0, first.output
    assert {path.name for path in tmp_path.iterdir()} == {*FOLDERS, "report.html"}
    before = {name: (tmp_path / name / "traces.jsonl").read_bytes() for name in FOLDERS}

    more = run("atlas", "game24", *call, "--limit", 1, "--out", tmp_path)
    assert more.exit_code == 0, more.output
    for name in FOLDERS:
        settings, records = read(tmp_path / name)
        assert {record.benchmark for record in records} == set(settings.benchmarks) == {"atlas", "game24"}
        assert (tmp_path / name / "traces.jsonl").read_bytes().startswith(before[name])
        assert settings.provenance[-1].call.startswith("agentflow eval atlas game24 --limit 1 --agent ")
    rows = [line.split() for line in more.stdout.splitlines() if line.split()[:1] and line.split()[0] in FOLDERS]
    assert {row[0] for row in rows} == FOLDERS


def test_a_model_that_nothing_works_with_does_not_stop_the_others(tmp_path: Path) -> None:
    """Nobody listens on port 9."""
    dead = "openai-compatible:nobody@http://127.0.0.1:9/v1"
    done = run("atlas", "--model", dead, "--model", "embedded", "--limit", 1, "--out", tmp_path)
    assert done.exit_code == 1
    assert (tmp_path / "report.html").exists()
    assert read(tmp_path / "agentflow_embedded")[1][0].failed is False
    [failed] = [path for path in tmp_path.iterdir() if "nobody" in path.name]
    assert json.loads((failed / "traces.jsonl").read_text())["status"] == "failed"


def test_tools_that_are_not_asked_for_need_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFLOW_SANDBOX", "no-such-tier")
    done = run("atlas", "--tools", "base_generator", "--limit", 1, "--out", tmp_path)
    assert done.exit_code == 0, done.output
