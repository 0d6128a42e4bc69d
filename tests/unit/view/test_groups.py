"""Advantages as the trainer computes them."""

from pathlib import Path
from typing import Any

import pytest

from agentflow.rl.flow_grpo import advantages
from agentflow.rl.rollout import Fate
from agentflow.view.groups import groups
from agentflow.view.shelf import Root, Shelf
from agentflow.view.sources import Training
from tests.runs import turn
from tests.trainings import begin, rollout, write_step


def found(tmp_path: Path, **flow: Any) -> dict[str, Any]:
    out = begin(tmp_path / "t", 1, **flow)
    two = [turn(), turn(2)]
    rollouts = [
        rollout(1, "train", "a", 1.0, turns=two),
        rollout(1, "train", "a", 0.0),
        rollout(1, "train", "a", 0.0, fate=Fate.ENDPOINT_FAILED),
        rollout(1, "train", "a", 0.0),
        rollout(1, "train", "b", 1.0),
        rollout(1, "train", "b", 1.0),
    ]
    write_step(out, 1, rollouts)
    shelf = Shelf([Root(tmp_path)])
    shelf.refresh()
    [training] = shelf.sources.values()
    assert isinstance(training, Training)
    return groups(training.of_step(1, "train"), training.settings)


def told(group: dict[str, Any]) -> list[float | None]:
    return [one["advantage"] for one in group["trajectories"]]


@pytest.mark.parametrize("baseline", ["mean", "leave-one-out"])
@pytest.mark.parametrize("scale", ["std", "none"])
def test_they_are_the_trainers_by_the_runs_own_settings(tmp_path: Path, baseline: Any, scale: Any) -> None:
    a, b = found(tmp_path, statistics="trajectory", baseline=baseline, scale=scale)["groups"]
    first, second, fourth = advantages([1, 0, 0], ["a"] * 3, [True] * 3, baseline=baseline, scale=scale).tolist()
    assert told(a) == pytest.approx([first, second, None, fourth])
    assert (a["settled"], b["settled"], told(b)) == (False, True, [0.0, 0.0])


def test_statistics_over_calls_count_a_trajectory_once_per_call(tmp_path: Path) -> None:
    a, _ = found(tmp_path, statistics="call", baseline="mean", scale="none")["groups"]
    assert told(a) == pytest.approx([0.5, -0.5, None, -0.5])


def test_over_the_step_a_settled_group_teaches_too(tmp_path: Path) -> None:
    a, b = found(tmp_path, baseline="batch", scale="batch")["groups"]
    expected = advantages([1, 0, 0, 1, 1], ["a"] * 3 + ["b"] * 2, [True] * 5, baseline="batch", scale="batch").tolist()
    assert told(a) == pytest.approx([*expected[:2], None, expected[2]])
    assert told(b) == pytest.approx(expected[3:])
    assert not b["settled"]


def test_by_turn_it_is_the_mean_over_turns(tmp_path: Path) -> None:
    out = begin(tmp_path / "t", 1, credit="turn", baseline="leave-one-out", scale="none")
    first = rollout(1, "train", "a", 0.0, turns=[turn(), turn(2)]).model_copy(update={"turn_rewards": [1.0, 0.0]})
    write_step(out, 1, [first, rollout(1, "train", "a", 1.0)])
    shelf = Shelf([Root(tmp_path)])
    shelf.refresh()
    [training] = shelf.sources.values()
    assert isinstance(training, Training)
    [group] = groups(training.of_step(1, "train"), training.settings)["groups"]
    assert told(group) == pytest.approx([-0.5, 0.0])


def test_the_formula_says_which(tmp_path: Path) -> None:
    assert found(tmp_path)["formula"] == "A = (r − mean(r)) / (std(r) + 1e-06) over the question's trajectories"
    other = found(tmp_path / "other", statistics="call", baseline="leave-one-out", scale="none", penalty=0.3)
    assert other["formula"] == "A = r − mean(r of the others) over the calls of the question"
    assert other["penalty"] == 0.3
