"""`agentflow try`: rollouts of an app as training would use them."""

import json
from pathlib import Path

import pytest

pytest.importorskip("verl")

from agentflow.cli.group import FAILED, MISUSED
from tests.command_line import call, succeeds
from tests.fake_openai import FakeOpenAI

AGENT = (Path(__file__).parent / "cases/try.py.txt").read_text()
TOOL = '{"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is {n} plus 1?", "answer": str(n + 1)} for n in range(10)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def write(folder: Path, name: str, *, tools: bool = False, reward: str = "next(rewards)") -> list[str]:
    """Write an agent, and return the words that try it."""
    (folder / f"{name}.py").write_text(AGENT.format(TOOL=TOOL, TOOLS=tools, REWARD=reward))
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
    words = write(folder, "served_agent", tools=True)
    with FakeOpenAI(lambda body: "2") as server:
        done = succeeds(*words, "--limit", "2", "--model", f"openai-compatible:any@{server.base_url}")
    assert [len(body["tools"]) for body in server.bodies] == [1, 1]
    assert any(line.split()[:3] == ["answer", "yes", "2"] for line in done.stdout.splitlines())
    assert "start=FOLDER" in done.stderr


def test_a_script_plays_an_agent_with_tools_where_no_model_is_named(folder: Path) -> None:
    """Equal rewards are no failure then, and the remark names the models that would tell more."""
    words = [*write(folder, "tool_agent", tools=True, reward="0.0"), "--limit", "1", "--rollouts", "2"]
    done = succeeds(*words)
    assert any(line.split()[:3] == ["answer", "yes", "2"] for line in done.stdout.splitlines())
    assert "signal" not in done.stdout
    assert "--model own" in done.stderr
    refused = call(*words, "--model", "embedded")
    assert refused.exit_code == MISUSED
    assert "tools" in refused.stderr
