"""The benchmarks as tasks of Inspect: the same questions and scorers, each module's calls under its role."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "inspect_ai", reason="needs the extra inspect, which has an environment of its own: make test-inspect"
)

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model

from agentflow.evals.inspect_tasks import BENCHMARKS, _task_of
from agentflow.graph.models import loading

# Inspect sets up asyncio and its log in ways that warn; what it does with our own code must still not.
pytestmark = pytest.mark.filterwarnings("default")

PLAN = "Sub-Goal: find 24\nTool: base_generator\nContext: the numbers"
REPLIES = {
    "analyst": "Four numbers make 24.",
    "planner": PLAN,
    "executor": '{"query": "24?"}',
    "tools": "It can be done.",
    "verifier": "Analysis: Enough.\nVerdict: stop",
    "generator": "Answer: unable to tell",
}


@pytest.fixture(autouse=True)
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide the entry point also if the package was installed before it existed."""
    point = EntryPoint("inspect", "agentflow.evals.inspect_models:load", "agentflow.models")
    monkeypatch.setattr(loading, "installed", lambda: {"inspect": point})


def scripted(text: str) -> Model:
    """A model that always says `text`, with its usage, without which Inspect would download a tokenizer."""

    def reply(*_: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm", text)
        output.usage = ModelUsage(input_tokens=10, output_tokens=2, total_tokens=12)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def run(tmp_path: Path, name: str, replies: dict[str, str] = REPLIES, **options: Any) -> EvalLog:
    roles = {role: scripted(text) for role, text in replies.items()}
    arguments = {"limit": 1, "log_dir": str(tmp_path), "display": "none", "model_roles": roles, "fail_on_error": False}
    [log] = inspect_eval(_task_of(BENCHMARKS[name])(), **arguments, **options)
    return read_eval_log(log.location)


def test_every_module_calls_the_model_of_its_role(tmp_path: Path) -> None:
    log = run(tmp_path, "game24")
    assert log.status == "success", log.error
    [sample] = log.samples or []
    calls = [event for event in sample.events if event.event == "model"]
    assert [call.role for call in calls] == ["analyst", "planner", "executor", "tools", "verifier", "generator"]
    assert calls[1].output.completion == PLAN
    assert calls[1].config.temperature == 0
    assert {event.name for event in sample.events if event.event == "span_begin"} >= set(REPLIES)
    [turn] = [event for event in sample.events if event.event == "info"]
    assert turn.source == "turn 1: base_generator"
    assert sample.metadata["trace"]["turns"][0]["result"]["output"] == "It can be done."


def test_the_scorer_is_ours(tmp_path: Path) -> None:
    task = BENCHMARKS["game24"].tasks()[0]
    wrong = run(tmp_path / "wrong", "game24", {**REPLIES, "generator": "Answer: 24"})
    right = run(tmp_path / "right", "game24", {**REPLIES, "generator": f"Answer: {task.gold}"})
    scores = [
        log.samples[0].scores["benchmark_scorer"] for log in (wrong, right) if log.samples and log.samples[0].scores
    ]
    assert [score.value for score in scores] == ["I", "C"]
    assert "decided by" in str(scores[0].explanation)
    assert [log.samples[0].id for log in (wrong, right) if log.samples] == [task.id] * 2


def test_a_model_that_fails_is_an_error_and_no_wrong_answer(tmp_path: Path) -> None:
    roles = {role: text for role, text in REPLIES.items() if role != "planner"}
    broken = get_model("mockllm/model", custom_outputs=[], memoize=False)  # has nothing left to say
    [log] = inspect_eval(
        _task_of(BENCHMARKS["game24"])(),
        limit=1,
        log_dir=str(tmp_path),
        display="none",
        model_roles={**{role: scripted(text) for role, text in roles.items()}, "planner": broken},
        fail_on_error=False,
    )
    [sample] = read_eval_log(log.location).samples or []
    assert sample.error is not None
    assert not sample.scores


def test_inspect_finds_the_tasks_and_our_own_models(tmp_path: Path) -> None:
    """Run Inspect's command line; the embedded models play all roles that are not named."""
    points = tmp_path / "agentflow_points-1.dist-info"
    points.mkdir()
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: agentflow-points\nVersion: 1\n")
    root = Path(__file__).parents[2]
    text = (root / "pyproject.toml").read_text()
    groups = {"inspect_ai": "inspect_ai", '"agentflow.models"': "agentflow.models"}
    sections = [
        f"[{name}]\n{text.partition(f'entry-points.{mark}]')[2].partition('[')[0]}" for mark, name in groups.items()
    ]
    (points / "entry_points.txt").write_text("\n".join(sections).replace('"', ""))
    command = "eval agentflow/atlas --limit 1 --model-role planner=agentflow/embedded:seed --display plain"
    done = subprocess.run(
        [sys.executable, "-m", "inspect_ai", *command.split(), "--log-dir", str(tmp_path / "logs")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "planner (role)" in done.stdout
    assert "agentflow/embedded:seed" in done.stdout
