"""The recipe of the small model that speaks tool calls: its oracle, its rows and its checkpoint."""

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
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, run
from agentflow.rl.rollout.template import load_tokenizer
from examples.agents import pretrain
from examples.agents.oracle import Oracle
from examples.agents.sums import example
from tests.waiting import LAST_RESORT

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor


@pytest.fixture(scope="module")
def known() -> ChatFormat:
    tokenizer = load_tokenizer(SEED)
    tokenizer.chat_template = TOOL_TEMPLATE
    return ChatFormat(tokenizer)


async def rollout(agent: str, policy: Oracle | LocalPolicy, number: int) -> Rollout:
    lesson = pretrain.LESSONS[agent]
    question, result = example(random.Random(number), lesson.steps)
    app = load_app(f"examples.agents.{agent}:agent", tasks="sums.jsonl", reward="examples.agents.sums:score")
    task = Task(id=str(number), question=question, gold=str(result))
    return await run(app, app.built(), task, policy, id=str(number), seconds=LAST_RESORT)


@pytest.mark.parametrize("mistakes", [0.0, 0.9])
@pytest.mark.parametrize("agent", list(pretrain.LESSONS))
async def test_every_rollout_of_the_oracle_ends_and_is_right_without_mistakes(
    agent: str, mistakes: float, known: ChatFormat
) -> None:
    oracle = Oracle(known, mistakes=mistakes, seed="0")
    found = [await rollout(agent, oracle, number) for number in range(12 if mistakes else 6)]
    assert {one.status for one in found} == {RolloutStatus.OK}
    assert (sum(one.reward for one in found) < len(found)) == bool(mistakes)
    assert mistakes or not any(fault for one in found for fault in one.faults)


async def test_the_rows_are_those_of_a_training(known: ChatFormat) -> None:
    """A rollout of the swarm is a row for each agent that spoke, with every sampled token in it once."""
    played = await rollout("swarm", Oracle(known, mistakes=0.0, seed="0"), 0)
    groups = pretrain.grouped("swarm", pack(played.calls, limit=pretrain.LONGEST), known.tokenizer.eos_token_id or 0)
    learnt = [
        token
        for (_, prefix), [row] in groups.items()
        for token, mask in zip([*prefix, *row.ids], [*([False] * len(prefix)), *row.learnt], strict=True)
        if mask
    ]
    assert sorted(learnt) == sorted(token for call in played.calls for token in call.response_ids)
    assert all(known.tokenizer.decode(prefix).startswith("<|im_start|>system\n") for _, prefix in groups)


async def test_the_checkpoint_plays_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {agent: replace(lesson, rollouts=2) for agent, lesson in pretrain.LESSONS.items()}
    monkeypatch.setattr(pretrain, "LESSONS", few)
    monkeypatch.setattr(pretrain, "FIRST_ROLLOUTS", 2)
    await asyncio.to_thread(pretrain.main, tmp_path, 2)
    assert MicroModel.load(tmp_path / "model").config.layers == pretrain.SHAPE.layers
    found = await rollout("tools", LocalPolicy(str(tmp_path / "model"), max_tokens=4), 0)
    assert found.status == RolloutStatus.OK
    assert found.calls
