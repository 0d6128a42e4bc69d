"""The recipe of the small model that speaks tool calls: from its oracle's rollouts to its checkpoint."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("verl")
pytest.importorskip("langchain.agents")
pytest.importorskip("langgraph_supervisor")
pytest.importorskip("langgraph_swarm")

from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from agentflow.rl.launch.local_policy import LocalPolicy
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.rollout.rollout import RolloutStatus, run
from examples.agents import pretrain
from examples.agents.sums import example
from tests.waiting import LAST_RESORT

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor


async def test_the_checkpoint_plays_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {agent: replace(lesson, rollouts=2) for agent, lesson in pretrain.LESSONS.items()}
    monkeypatch.setattr(pretrain, "LESSONS", few)
    monkeypatch.setattr(pretrain, "FIRST_ROLLOUTS", 2)
    await asyncio.to_thread(pretrain.main, tmp_path, 2)
    assert MicroModel.load(tmp_path / "model").config.layers == pretrain.SHAPE.layers
    question, result = example(random.Random(0), pretrain.LESSONS["tools"].steps)
    app = load_app("examples.agents.tools:agent", tasks="sums.jsonl", reward="examples.agents.sums:score")
    task, policy = Task(id="0", question=question, gold=str(result)), LocalPolicy(str(tmp_path / "model"), max_tokens=4)
    found = await run(app, app.built(), task, policy, id="0", seconds=LAST_RESORT)
    assert found.status == RolloutStatus.OK
    assert found.calls
