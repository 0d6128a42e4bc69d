"""`agentflow try`: rollouts of an app as training would use them."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("verl")

from agentflow.cli.group import FAILED, MISUSED
from agentflow.console.rollouts import print_preview
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.launch.preview import Preview
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus
from tests.command_line import call, succeeds
from tests.fake_openai import FakeOpenAI

AGENT = (Path(__file__).parent / "cases/try.py.txt").read_text()
TOOLS = 'tools=[{"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}]'
ANY_JSON = 'response_format={"type": "json_object"}'
FORM = 'response_format={"type": "json_schema", "json_schema": {"name": "Answer", "schema": {"type": "object"}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(10)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def write(folder: Path, name: str, *, options: str = "", reward: str = "next(rewards)") -> list[str]:
    """Write an agent, and return the words that try it."""
    (folder / f"{name}.py").write_text(AGENT.format(OPTIONS=options, REWARD=reward))
    return ["try", f"{name}:agent", "--tasks", "tasks.jsonl", "--reward", f"{name}:score"]


def test_a_graph_of_ones_own_is_tried_with_the_embedded_model(folder: Path) -> None:
    words = write(folder, "tried_agent")
    lines = succeeds(*words, "--limit", "2", "--rollouts", "2").stdout.splitlines()
    assert sum("answer ·" in line for line in lines) == 4
    assert any(line.split()[:3] == ["answer", "yes", "4"] for line in lines)
    assert any("signal: 2 of 2" in line for line in lines)


@pytest.mark.parametrize(
    ("reward", "nodes", "why"),
    [
        ("0.0", "answer", "reward 0"),
        ("7.0", "answer", "from 0 to 1"),
        ("task.none", "answer", "reward raised"),
        ("None", "answer", "None"),
        ("next(rewards)", "answr", "'answer'"),
    ],
)
def test_nothing_can_be_learnt(folder: Path, request: pytest.FixtureRequest, reward: str, nodes: str, why: str) -> None:
    """The command fails, and its error names the reason and the remedy."""
    words = write(folder, f"hopeless_{abs(hash(request.node.name))}", reward=reward)
    done = call(*words, "--limit", "2", "--nodes", nodes)
    assert done.exit_code == FAILED
    assert why in done.stderr


def test_a_servers_model_plays_an_agent_with_tools(folder: Path) -> None:
    """Tokens are counted by a template with tools where the preset's has none."""
    words = write(folder, "served_agent", options=TOOLS)
    with FakeOpenAI(lambda body: "2") as server:
        done = succeeds(*words, "--limit", "2", "--model", f"openai-compatible:any@{server.base_url}")
    assert [len(body["tools"]) for body in server.bodies] == [1, 1]
    assert any(line.split()[:3] == ["answer", "yes", "2"] for line in done.stdout.splitlines())
    assert "start=FOLDER" in done.stderr


@pytest.mark.parametrize("options", [TOOLS, ANY_JSON, FORM], ids=["tools", "json", "form"])
def test_a_script_plays_where_no_model_is_named(folder: Path, request: pytest.FixtureRequest, options: str) -> None:
    """Equal rewards are no failure then, and the remark names the models that would tell more."""
    name = f"scripted_{request.node.callspec.id}"
    words = [*write(folder, name, options=options, reward="0.0"), "--limit", "1", "--rollouts", "2"]
    done = succeeds(*words)
    assert "unreadable" not in done.stdout
    assert any(line.split()[:3] == ["answer", "yes", "2"] for line in done.stdout.splitlines())
    assert "signal" not in done.stdout
    assert "--model own" in done.stderr


def test_a_model_that_is_named_and_has_no_tools_is_refused(folder: Path) -> None:
    refused = call(*write(folder, "tool_agent", options=TOOLS), "--limit", "1", "--model", "embedded")
    assert refused.exit_code == MISUSED
    assert "tools" in refused.stderr


def test_the_path_of_a_node_is_printed_whole() -> None:
    """It is what --nodes takes, and long ones differ at their end."""
    trace = Trace(task=Task(id="1", question="?"), status="failed")
    paths = [f"a-supervisor-of-agents/an-expert-of-{what}/model" for what in ("research", "arithmetic")]
    rollout = Rollout("1/0", RolloutStatus.OK, 0.0, [], [], trace, dict.fromkeys(paths, 1))
    out = Console(width=80, file=(printed := StringIO()))
    print_preview(out, Preview([rollout]))
    column = "".join(line[:30].strip() for line in printed.getvalue().splitlines())
    assert all(path in column for path in paths)
