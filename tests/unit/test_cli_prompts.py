"""`agentflow prompts` and `--context` on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentflow.cli import app
from agentflow.cli.group import INTERRUPTED
from tests.fake_openai import FakeOpenAI
from tests.prompted import SENTENCE, script, written
from tests.scripted import Scripted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_prompts_of_our_agent_evolve_on_an_endpoint_alone(folder: Path) -> None:
    pytest.importorskip("gepa")
    written(folder)
    with FakeOpenAI(script) as server:
        spec = f"openai-compatible:fake-model@{server.base_url}"
        words = ["--tasks", "tasks.jsonl", "--model", spec, "--nodes", "generator", "--limit", "8", "--held-out", "2"]
        done = CliRunner().invoke(app, ["prompts", *words, "--rollouts", "40", "--out", "found"])
        assert done.exit_code == 0, done.output
        assert f"+{SENTENCE}" in done.stdout.splitlines()
        assert "1.000 after" in done.stdout
        before = len(server.requests)
        solved = CliRunner().invoke(
            app, ["solve", "What is the number 5?", "--model", spec, "--context", "found/context.json", "--json"]
        )
        assert json.loads(solved.stdout)["answer"] == "12"
        assert any(SENTENCE in body["messages"][0]["content"] for body in server.bodies[before:])


def test_an_interrupt_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gepa")
    from agentflow.rl.prompts.search import Search

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "run", interrupted)
    written(folder)
    words = ["prompts", "--tasks", "tasks.jsonl", "--reflection", "openai-compatible:m@http://127.0.0.1:9/v1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == INTERRUPTED
    assert len(done.stderr.splitlines()) == 1


def test_a_file_of_settings_is_over_the_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(generator="Answer: hello")
    scripted.install(monkeypatch)
    Path("mine.json").write_text(json.dumps({"model": scripted.spec, "prompts": {"verifier": "Check it well."}}))
    done = CliRunner().invoke(app, ["solve", "Which word?", "--model", "ollama:none", "--context", "mine.json"])
    assert "hello" in done.stdout, done.output
