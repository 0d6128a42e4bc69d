"""The page's data of a group's tokens."""

import math

import pytest

from agentflow.rl.rollout.packing import PrefixMismatch, Reason
from agentflow.rl.rollout.token_inspector import Given, Written, terms, trajectories, why
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


def written(**changes: object) -> Written:
    step = STEP.model_copy(update=changes)
    part = trajectories(step, "a")[0].rows[0].parts[1]
    assert isinstance(part, Written)
    return part


def test_drift_is_trainer_less_rollout_and_ratio_is_of_the_old_policy_of_the_run() -> None:
    assert [token.drift for token in written().tokens] == [0.0, -0.002, 0.05, -0.2]
    of_rollout = [math.exp(value) for value in (0.0, 0.1, 0.5, -1.0)]
    of_trainer = [math.exp(value) for value in (0.0, 0.102, 0.45, -0.8)]
    assert [token.ratio for token in written().tokens] == pytest.approx(of_rollout)
    assert [token.ratio for token in written(old="trainer").tokens] == pytest.approx(of_trainer)


def test_levels_tell_sign_and_size() -> None:
    part = written()
    assert part.level == 3
    assert [token.drift_level for token in part.tokens] == [0, -1, 2, -3]
    assert [token.ratio_level for token in part.tokens] == [0, 1, 3, -3]
    lower = trajectories(STEP, "a")[1].rows[0].parts[1]
    assert isinstance(lower, Written)
    assert lower.level == -3


def test_a_token_is_clipped_only_on_the_side_that_its_advantage_pushes_to() -> None:
    better, worse = (one.rows[0].parts[1] for one in trajectories(STEP, "a"))
    assert isinstance(better, Written)
    assert isinstance(worse, Written)
    assert [token.clipped for token in better.tokens] == [False, False, True, False]
    assert [token.clipped for token in worse.tokens] == [False, False, False, True]


def test_what_was_not_computed_is_not_shown_as_a_number() -> None:
    row = STEP.rows[0]
    call = row.calls[0].model_copy(update={"trainer": None, "updated": None, "advantage": None, "mask": [0] * 4})
    part = written(rows=[row.model_copy(update={"calls": [call]})])
    assert part.level == 0
    for token in part.tokens:
        assert (token.trained, token.trainer, token.drift, token.ratio, token.clipped) == (
            False,
            None,
            None,
            None,
            False,
        )
        assert token.rollout is not None


@pytest.mark.parametrize(
    ("mismatch", "said"),
    [
        (None, ""),
        (
            PrefixMismatch(Reason.OFF, 0, 9),
            "Turns are not packed (flow.pack_turns=false), so that every call is a row.",
        ),
        (PrefixMismatch(Reason.FULL, 1020, 1020), "The row is full after 1,020 tokens: with this call it would exceed"),
        (
            PrefixMismatch(Reason.PROMPT, 811, 1020, expected=2, found=99),
            "The prompt was rendered anew from here: token 812 of 1,020, expected 'user\\n' (2), found '' (99).",
        ),
        (PrefixMismatch(Reason.REPLY, 3, 4, expected=3), "token 4 of 4, expected 'Sub' (3), the prompt ends there."),
    ],
)
def test_why_a_prefix_broke_is_a_sentence(mismatch: PrefixMismatch | None, said: str) -> None:
    assert said in why(mismatch, STEP)


def test_what_is_so_by_construction_is_said() -> None:
    assert "bypass_mode" in dict(terms(STEP))["ratio"]
    assert "by construction" in dict(terms(STEP.model_copy(update={"old": "trainer"})))["ratio"]


def test_white_space_can_be_seen() -> None:
    step = STEP.model_copy(update={"pieces": {3: "a\n\tb", 4: ""}})
    part = trajectories(step, "a")[0].rows[0].parts[1]
    assert [token[1] for token in part.tokens] == ["a↵\n⇥\tb", "∅", "#5", "#6"]
