"""The page's data of a group's tokens."""

import math

import pytest

from agentflow.rl.rollout.token_inspector import Given, Written, trajectories
from tests.trainings import rollout, token_step

RECORDS = [rollout(1, "train", "a", reward, id=f"r{reward}") for reward in (1.0, 0.0)]
STEP = token_step(1, "a", RECORDS)


def test_every_token_of_every_row_is_shown_once_and_in_order() -> None:
    found = trajectories(STEP, "a")
    assert [(one.rollout, one.reward, len(one.rows)) for one in found] == [("r1.0", 1.0, 2), ("r0.0", 0.0, 1)]
    for shown, row in zip([row for one in found for row in one.rows], STEP.rows, strict=True):
        assert [token[0] for part in shown.parts for token in part.tokens] == row.ids
        assert [part.start for part in shown.parts] == [0, row.calls[0].start]
        assert [type(part) for part in shown.parts] == [Given, Written]
    assert trajectories(STEP, "another") == []


def written(place: int = 0, **changes: object) -> Written:
    part = trajectories(STEP.model_copy(update=changes), "a")[place].rows[0].parts[1]
    assert isinstance(part, Written)
    return part


def test_drift_is_trainer_less_rollout_and_ratio_is_of_the_old_policy_of_the_run() -> None:
    assert [token.drift for token in written().tokens] == [0.0, -0.002, 0.05, -0.2]
    for old, logarithms in (("rollout", (0.0, 0.1, 0.5, -1.0)), ("trainer", (0.0, 0.102, 0.45, -0.8))):
        ratios = [math.exp(value) for value in logarithms]
        assert [token.ratio for token in written(old=old).tokens] == pytest.approx(ratios)


def test_a_token_is_clipped_only_on_the_side_that_its_advantage_pushes_to() -> None:
    assert [token.clipped for token in written(0).tokens] == [False, False, True, False]
    assert [token.clipped for token in written(1).tokens] == [False, False, False, True]
