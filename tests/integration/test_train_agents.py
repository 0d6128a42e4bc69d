"""Agents with tools, source untouched, through the whole of verl's trainer, with a small model that calls tools."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentflow.rl.rollout.rollout import RolloutStatus
from tests.integration.training import lines, rollouts, token_step, train, trains
from tests.processes import python

pytest.importorskip("verl")
pytest.importorskip("langgraph_swarm")

pytestmark = trains

PRETRAINING_STEPS = 200
"""Fewer than usual: the model writes calls by then, and many of them are wrong."""
STEPS = (1, 2)
NODES = {"tools": {"model"}, "swarm": {"adder/model", "multiplier/model"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tool-model")
    command = [sys.executable, "-m", "examples.agents.pretrain", "--out", str(out), "--steps", str(PRETRAINING_STEPS)]
    subprocess.run(command, check=True)
    return out / "model"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tasks") / "sums.jsonl"
    file.write_text(python("-m", "examples.agents.sums", check=True).stdout)
    return file


@pytest.fixture(scope="module", params=list(NODES))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(agent: str, model: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / agent
    command = [f"examples.agents.{agent}:agent", "--tasks", str(tasks), "--reward", "examples.agents.sums:score"]
    train(out, *command, f"start={model}", f"steps={STEPS[-1]}", "questions=4", "token_groups=4")
    return out


def test_no_rollout_is_lost_and_calls_are_read(run: Path) -> None:
    records = [record for step in STEPS for record in rollouts(run, step, "train")]
    assert Counter(record.outcome for record in records) == {RolloutStatus.OK: 16 * len(STEPS)}
    several = [record for record in records if len(record.calls) > 1]
    assert several, "an agent speaks again after a tool has answered"
    assert not all(call.fault for record in several for call in record.calls)


def test_every_sampled_token_is_accounted_for_by_its_path(run: Path, agent: str) -> None:
    for step in STEPS:
        sampled, trained = Counter[str](), Counter[str]()
        for record in rollouts(run, step, "train"):
            for call in record.calls:
                sampled[call.node] += call.sampled_tokens
        for row in token_step(run / "tokens" / f"{step:06d}.jsonl.gz").rows:
            for one in row.calls:
                trained[one.node] += sum(one.mask)
        assert trained == sampled
        assert set(sampled) <= NODES[agent]
        [line] = [line for line in lines(run, "train") if line["step"] == step]
        assert sum(sampled.values()) == line["sampled_tokens"]
