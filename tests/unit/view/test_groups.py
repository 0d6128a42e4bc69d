"""The groups of a step, with the advantages that the trainer recorded."""

from pathlib import Path

import pytest

from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.rl.run.training_log import TrainingLog
from agentflow.view.groups import groups
from agentflow.view.run_index import Root, RunIndex
from agentflow.view.sources import Training
from tests.runs import turn
from tests.trainings import begin, rollout, write_step

FLOW = {"algorithm": {"name": "rloo", "penalty": 0.3}}


def training_in(folder: Path) -> Training:
    index = RunIndex([Root(folder)])
    index.refresh()
    [training] = index.sources.values()
    assert isinstance(training, Training)
    return training


def test_they_are_those_that_were_trained_with(tmp_path: Path) -> None:
    rollouts = [
        rollout(1, "train", "a", 1.0, turns=[turn(), turn(2)]).credited([1.0, 0.7]),
        rollout(1, "train", "a", 0.0).credited([-1.0]),
        rollout(1, "train", "a", 0.0, status=RolloutStatus.ENDPOINT_FAILED),
        rollout(1, "train", "b", 1.0).credited([0.0]),
        rollout(1, "train", "b", 1.0).credited([0.0]),
    ]
    write_step(begin(tmp_path / "t", 1, **FLOW), 1, rollouts)
    training = training_in(tmp_path)
    step = groups(training.of_step(1, "train"), training.settings)
    a, b = step["groups"]
    assert [one["advantage"] for one in a["trajectories"]] == pytest.approx([0.85, -1.0, None])
    assert [list(one["advantages"]) for one in a["trajectories"]] == [[1.0, 0.7], [-1.0], []]
    assert (a["settled"], b["settled"]) == (False, True)
    assert (step["credited"], step["penalty"]) == (True, 0.3)
    assert step["formula"]


def test_a_step_that_is_credited_while_it_is_watched_is_read_again(tmp_path: Path) -> None:
    """The trainer rewrites the file of the step's rollouts."""
    out = begin(tmp_path / "t", 1, **FLOW)
    write_step(out, 1, [rollout(1, "train", "a", reward, id=f"a/{reward:.0f}") for reward in (1.0, 0.0)])
    training = training_in(tmp_path)
    TrainingLog(out).credit(1, {"a/1": [1.0], "a/0": [-1.0]})
    while training.refresh()[1]:
        pass
    [group] = groups(training.of_step(1, "train"), training.settings)["groups"]
    assert [one["advantage"] for one in group["trajectories"]] == [1.0, -1.0]
