"""Recorded tokens of a step, and how much of a damaged record can be read."""

import gzip
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentflow.rl.rollout.packing import PrefixMismatch, Reason
from agentflow.rl.rollout.tokens import Sampled, TokenRow, TokenStep, differences, kept, packed, unpacked
from tests.trainings import rollout, token_step

STEP = token_step(3, "a", [rollout(3, "train", "a", reward, id=f"r{reward}") for reward in (1.0, 0.0)])


def test_a_step_is_read_as_it_was_written() -> None:
    assert unpacked(packed(STEP)) == STEP
    assert unpacked(packed(STEP), rows=False) == STEP.model_copy(update={"rows": []})


def test_differences_are_over_the_trained_tokens_whose_values_are_known() -> None:
    means = {"drift": (0 + 0.002 + 0.05 + 0.2) / 4, "logprob_change": (0 + 0.102 + 0.45 + 0.8) / 4}
    assert differences(STEP) == pytest.approx(means)
    call = STEP.rows[0].calls[0].model_copy(update={"mask": [0, 1, 1, 1], "rollout": [-9, None, -1.5, -2]})
    untold = call.model_copy(update={"trainer": None})
    rows = [STEP.rows[0].model_copy(update={"calls": calls}) for calls in ([call], [untold])]
    found = differences(STEP.model_copy(update={"rows": rows}))
    assert found == pytest.approx({"drift": (0.05 + 0.2) / 2, "logprob_change": (0.102 + 0.45 + 0.8) / 3}, abs=1e-6)
    assert differences(STEP.model_copy(update={"rows": rows[1:]})) == {}


@given(st.data())
def test_a_torn_file_has_the_rows_that_are_whole(data: st.DataObject) -> None:
    whole = packed(STEP)
    found = unpacked(whole[: data.draw(st.integers(0, len(whole)))])
    assert found is None or found.rows == STEP.rows[: len(found.rows)]


def test_what_is_something_else_is_passed_over() -> None:
    head, *rows = gzip.decompress(packed(STEP)).splitlines(keepends=True)
    mixed = unpacked(gzip.compress(b"".join([head, b"{}\n", rows[1], b'{"task": 1}\n', b"\xff\n"])))
    assert mixed is not None
    assert mixed.rows == [STEP.rows[1]]
    for other in (b"", b"not gzipped", gzip.compress(b""), gzip.compress(b"{}\n")):
        assert unpacked(other) is None


@pytest.mark.parametrize(
    "wrong",
    [{"rollout": [-1.0]}, {"trainer": [-1.0]}, {"start": -1}, {"start": 4}, {"mask": [1, 2]}, {"weight": math.nan}],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    call = {"start": 2, "node": "n", "turn": 0, "mask": [1, 1], "advantage": 0, "weight": 0, "rollout": [-1.0, -1.0]}
    row = {"task": "t", "rollout": "r", "status": "ok", "reward": 1, "ids": [1, 2, 3, 4]}
    assert TokenRow.model_validate_json(json.dumps({**row, "calls": [call]})).calls[0].start == 2
    with pytest.raises(ValidationError):
        TokenRow.model_validate_json(json.dumps({**row, "calls": [{**call, **wrong}]}))
    with pytest.raises(ValidationError):
        TokenRow.model_validate_json(json.dumps({**row, "calls": [call, call]}))


def test_a_log_probability_that_is_no_number_is_kept_as_none() -> None:
    assert kept([-0.12345678, math.nan, -math.inf]) == [-0.123457, None, None]
    call = Sampled(start=0, node="n", turn=0, mask=[1], advantage=None, weight=None, rollout=kept([math.nan]))
    mismatch = PrefixMismatch(Reason.FULL, 4, 4)
    row = TokenRow(task="t", rollout="r", status="timed_out", reward=None, ids=[1], calls=[call], mismatch=mismatch)
    step = TokenStep(step=1, old="trainer", clip=(0.2, 0.3), tasks=["t"], pieces={1: "\x00\ud7ff"}, rows=[row])
    assert unpacked(packed(step)) == step
