"""The example's graph and reward, with a scripted policy in the model's place."""

import pytest

from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from tests.graphs import Server, rollout

app = load_app("examples.help_desk:app")


async def rewarded(reply: str, task: Task) -> float:
    return (await rollout(app, Server(reply), task=task)).reward


@pytest.mark.parametrize(("tool", "family"), [("calculator", "sum"), ("search", "word")])
async def test_the_right_tool_is_rewarded_and_nothing_else(tool: str, family: str) -> None:
    for task in app.tasks("train", 20):
        assert await rewarded(f"Tool: {tool}", task) == float(task.family == family)
        assert await rewarded("Tool: base_generator", task) == 0.0
