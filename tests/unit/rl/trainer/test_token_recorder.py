"""Rows that the token inspector records, and their data from verl."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from agentflow.rl.rollout.batch import CallSpan
from agentflow.rl.rollout.packing import Reason
from agentflow.rl.run.training_log import TrainingLog
from agentflow.rl.settings import compose_settings
from agentflow.rl.trainer import token_recorder
from agentflow.rl.trainer.token_recorder import TokenInspector, token_row
from tests.trainings import last_tokens
from tests.unit.rl.trainer.tensors import nested

PROMPT, RESPONSE = [7, 8, 9], [1, 2, 3, 4]
ROW = {
    "task": "t",
    "rollout": "r",
    "status": "ok",
    "rewarded": True,
    "reward": 1.0,
    "spans": [(0, 2), (3, 1)],
    "names": [("planner", 0), ("planner", 2)],
    "mismatch": {"reason": "full", "position": 3, "length": 3, "expected": None, "found": None},
}
CREDIT = [CallSpan(0, 2, 0.5, 0.1), CallSpan(3, 1, -0.5, 0.2)]
LOGPROBS = [-1.0, -2.0, 0.0, -3.0]


class Workers:
    """An actor on two ranks, by which a token has the log-probability -id/10, less `learnt`."""

    def __init__(self) -> None:
        self._dispatch_info = {"actor": [0, 1]}
        self.learnt = 0.0
        self.asked: list[int] = []
        self.masks: list[list[int]] = []

    def compute_log_prob(self, data: TensorDict) -> TensorDict:
        self.asked.append(len(data))
        self.masks += [mask.tolist() for mask in data["loss_mask"].unbind()]
        rows = [row.tolist() for row in data["input_ids"].unbind()]
        moved = [[-id / 10 - self.learnt for id in (*row[1:], 0)] for row in rows]
        return TensorDict({"log_probs": nested(moved)}, batch_size=len(rows))


class Tokenizer:
    def decode(self, ids: list[int]) -> str:
        return "\ufffd" if ids == [9] else f"<{ids[0]}>"

    def convert_ids_to_tokens(self, id: int) -> str:
        return "âĢ"


def looking(tmp_path: Path, *settings: str) -> tuple[TokenInspector, Workers, TrainingLog]:
    config, workers = compose_settings("atlas-cpu", [f"out={tmp_path}", *settings]), Workers()
    return TokenInspector(config, Tokenizer(), workers), workers, TrainingLog(tmp_path)


def chose(found: TokenInspector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a group of two rollouts, the second of which is left out."""
    fields = {
        "prompts": nested([PROMPT, PROMPT]),
        "responses": nested([RESPONSE, RESPONSE]),
        "response_mask": nested([[1, 1, 0, 1], [0, 0, 0, 0]]),
        "rollout_log_probs": nested([LOGPROBS, LOGPROBS]),
    }
    monkeypatch.setattr(token_recorder, "tq", SimpleNamespace(kv_batch_get=lambda **asked: fields))
    rows = {"q_0_0": ROW, "q_1_0": {**ROW, "status": "timed_out", "rewarded": False, "mismatch": None}}
    batch = KVBatchMeta(keys=list(rows), tags=[{}, {}], partition_id="train")
    found.choose(batch, rows, {"q_0_0": CREDIT})


def test_in_bypass_mode_the_trainer_is_asked_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, workers, log = looking(tmp_path)
    chose(found, monkeypatch)
    found.before_update(["q_0_0"], nested([LOGPROBS]), torch.tensor([[1, 0, 0, 1]]))
    workers.learnt = 0.5
    measured = found.after_update(log, 3)
    assert measured == {"drift": pytest.approx((0.9 + 2.6) / 2), "logprob_change": pytest.approx(0.5)}
    step = last_tokens(log)
    assert (step.step, step.old, step.clip, step.tasks) == (3, "rollout", (0.2, 0.3), ["t"])
    trained, left = step.rows
    first, second = trained.calls
    assert (first.start, first.mask, first.rollout) == (3, [1, 0], [-1.0, -2.0])
    assert (first.trainer, first.updated) == (pytest.approx([-0.1, -0.2]), pytest.approx([-0.6, -0.7]))
    assert (second.start, second.turn, second.trainer, second.updated) == (6, 2, [-0.4], [-0.9])
    assert (second.advantage, second.weight) == (-0.5, 0.2)
    assert trained.mismatch.reason == Reason.FULL
    [call, _] = left.calls
    assert (left.reward, call.mask, call.trainer, call.advantage) == (None, [0, 0], None, None)
    assert step.pieces == {1: "<1>", 2: "<2>", 3: "<3>", 4: "<4>", 7: "<7>", 8: "<8>", 9: "âĢ"}
    assert workers.asked == [2, 2], "as many rows for each rank"
    assert workers.masks == [[0, 0, 0, 1, 1, 0, 1]] * 4, "no logits of tokens that were not sampled"


def test_where_the_old_log_probabilities_are_the_trainers_they_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, workers, log = looking(tmp_path, "algorithm.rollout_correction.bypass_mode=false")
    chose(found, monkeypatch)
    found.before_update(["q_0_0", "pad_0_0"], nested([[-1.1, -2.1, 0.0, -3.1], [0.0]]), torch.ones(2, 4))
    assert workers.asked == []
    found.after_update(log, 1)
    step = last_tokens(log)
    assert step.old == "trainer"
    assert [call.trainer for call in step.rows[0].calls] == [pytest.approx([-1.1, -2.1]), pytest.approx([-3.1])]


def test_a_reply_that_verl_cut_short_is_kept_as_far_as_it_goes() -> None:
    alone = {**ROW, "reward": math.nan, "spans": [(0, 2)], "names": [("planner", 0)]}
    row = token_row(alone, None, PROMPT, RESPONSE[:1], [1], [-1.0])
    assert (row.reward, row.calls[0].mask, row.calls[0].rollout) == (None, [1], [-1.0])
