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


def found(tmp_path: Path, *advantages: list[float] | None, **flow: Any) -> dict[str, Any]:
    """Three rollouts of one question, and two of another."""
    out = begin(tmp_path / "t", 1, **(flow or FLOW))
    rollouts = [
        rollout(1, "train", "a", 1.0, turns=[turn(), turn(2)]),
        rollout(1, "train", "a", 0.0),
        rollout(1, "train", "a", 0.0, status=RolloutStatus.ENDPOINT_FAILED),
        rollout(1, "train", "b", 1.0),
        rollout(1, "train", "b", 1.0),
    ]
    told = [*advantages, *[None] * len(rollouts)]
    write_step(out, 1, [one.credited(told[n]) for n, one in enumerate(rollouts)])
    index = RunIndex([Root(tmp_path)])
    index.refresh()
    [training] = index.sources.values()
    assert isinstance(training, Training)
    return groups(training.of_step(1, "train"), training.settings)


def test_they_are_those_that_were_trained_with(tmp_path: Path) -> None:
    step = found(tmp_path, [1.0, 0.7], [-1.0], None, [0.0], [0.0])
    a, b = step["groups"]
    assert [one["advantage"] for one in a["trajectories"]] == pytest.approx([0.85, -1.0, None])
    assert [list(one["advantages"]) for one in a["trajectories"]] == [[1.0, 0.7], [-1.0], []]
    assert (a["settled"], b["settled"]) == (False, True)
    assert (step["credited"], step["penalty"]) == (True, 0.3)
    assert step["formula"].startswith("A = R − mean(R of the other")


def test_before_the_step_is_credited_there_are_none(tmp_path: Path) -> None:
    step = found(tmp_path)
    assert not step["credited"]
    assert {one["advantage"] for group in step["groups"] for one in group["trajectories"]} == {None}


def test_a_run_of_another_version_has_no_formula(tmp_path: Path) -> None:
    assert found(tmp_path, credit="trajectory", baseline="mean")["formula"] == ""


def test_a_step_that_is_credited_while_it_is_watched_is_read_again(tmp_path: Path) -> None:
    """The trainer rewrites the file of the step's rollouts."""
    out, index = begin(tmp_path / "t", 1, **FLOW), RunIndex([Root(tmp_path)])
    rollouts = [rollout(1, "train", "a", reward, id=f"a/{number}") for number, reward in enumerate((1.0, 0.0))]
    write_step(out, 1, rollouts)
    index.refresh()
    TrainingLog(out).credit(1, {"a/0": [1.0], "a/1": [-1.0]})
    index.refresh()
    [training] = index.sources.values()
    assert isinstance(training, Training)
    [group] = groups(training.of_step(1, "train"), training.settings)["groups"]
    assert [one["advantage"] for one in group["trajectories"]] == [1.0, -1.0]
