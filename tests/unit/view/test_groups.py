"""The groups of a step, with the advantages that the trainer recorded."""

from pathlib import Path
from typing import Any

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


def found(tmp_path: Path, *advantages: list[float] | None, **flow: Any) -> dict[str, Any]:
    """Three rollouts of one question, and two of another."""
    failed = RolloutStatus.ENDPOINT_FAILED
    rollouts = [
        rollout(1, "train", "a", 1.0, turns=[turn(), turn(2)]),
        rollout(1, "train", "a", 0.0),
        rollout(1, "train", "a", 0.0, status=failed),
        rollout(1, "train", "b", 1.0),
        rollout(1, "train", "b", 1.0),
    ]
    told = advantages or [None] * len(rollouts)
    credited = [one.credited(known) for one, known in zip(rollouts, told, strict=True)]
    write_step(begin(tmp_path / "t", 1, **(flow or FLOW)), 1, credited)
    training = training_in(tmp_path)
    return groups(training.of_step(1, "train"), training.settings)


def test_they_are_those_that_were_trained_with(tmp_path: Path) -> None:
    step = found(tmp_path, [1.0, 0.7], [-1.0], None, [0.0], [0.0])
    a, b = step["groups"]
    assert [one["advantage"] for one in a["trajectories"]] == pytest.approx([0.85, -1.0, None])
    assert [list(one["advantages"]) for one in a["trajectories"]] == [[1.0, 0.7], [-1.0], []]
    assert (a["settled"], b["settled"]) == (False, True)
    assert (step["credited"], step["penalty"]) == (True, 0.3)
    assert step["formula"]


def test_before_the_step_is_credited_there_are_none_and_another_version_has_no_formula(tmp_path: Path) -> None:
    step = found(tmp_path, credit="trajectory", baseline="mean")
    assert (step["credited"], step["formula"]) == (False, "")
    assert {one["advantage"] for group in step["groups"] for one in group["trajectories"]} == {None}


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
