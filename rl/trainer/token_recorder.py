"""Recorder of the trainer's log-probabilities for a few groups of each step (`agentflow.rl.rollout.tokens`).

The loss computes each token's log-probability too, but on micro-batches in other processes, without the names of the
rows, and before the update. So the trainer computes those of the chosen rows again: once after the update, and also
before it if the loss uses the rollout's log-probabilities as the old ones. Training does not depend on the results.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from agentflow.rl.rollout.batch import CallSpan, question_of, session_of
from agentflow.rl.rollout.tokens import Sampled, TokenRow, TokenStep, differences, kept
from agentflow.rl.run.training_log import TrainingLog

FIELDS = ["prompts", "responses", "response_mask", "rollout_log_probs"]


class TokenInspector:
    """Recorder of the chosen rows of the current step."""

    def __init__(self, config: DictConfig, tokenizer: Any, workers: Any) -> None:
        """Record with `workers`, verl's worker group of the actor."""
        correction = config.algorithm.get("rollout_correction")
        self.config, self.tokenizer, self.workers = config, tokenizer, workers
        self.bypass = bool(correction is not None and correction.get("bypass_mode", False))
        self.rows: dict[str, TokenRow] = {}
        self._trained: list[str] = []

    def choose(self, batch: KVBatchMeta, rows: Mapping[str, Any], credit: Mapping[str, Sequence[CallSpan]]) -> None:
        """Choose the groups to record and read their rows; called before any row is dropped."""
        keys = chosen(rows, credit, self.config.token_groups)
        self.rows, self._trained = {}, []
        if not keys:
            return
        found = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=FIELDS)
        columns = zip(*([one.tolist() for one in found[name].unbind()] for name in FIELDS), strict=True)
        for key, column in zip(keys, columns, strict=True):
            self.rows[key] = token_row(rows[key], credit.get(key), *column)

    def before_update(self, keys: Sequence[str], old_log_probs: torch.Tensor, mask: torch.Tensor) -> None:
        """Record the trainer's log-probabilities and the mask of the chosen rows that are trained on.

        `keys` name all rows that are trained on. `old_log_probs`, nested [rows, response], are those in the denominator
        of the ratio, and `mask`, padded [rows, response], tells whether a token is trained on.
        """
        found = dict(zip(keys, zip(old_log_probs.unbind(), mask, strict=True), strict=True))
        self._trained = [key for key in self.rows if key in found]
        computed = self._log_probs() if self.bypass else {}
        for key in self._trained:
            row, (old, trained) = self.rows[key], found[key]
            before = len(row.ids) - len(old)
            values = computed[key] if self.bypass else [0.0] * before + old.tolist()
            for call in row.calls:
                start, length = call.start, len(call.mask)
                call.trainer = kept(values[start : start + length])
                call.mask = trained[start - before : start - before + length].int().tolist()

    def after_update(self, log: TrainingLog, step: int) -> dict[str, float]:
        """Record the log-probabilities under the updated weights, and write the step's file.

        Returns the means over the tokens that are trained on: `drift` = |trainer - rollout| and `logprob_change` =
        |updated - trainer|, in nats. Empty if there are none.
        """
        if not self.rows:
            return {}
        for key, values in self._log_probs().items():
            for call in self.rows[key].calls:
                call.updated = kept(values[call.start : call.start + len(call.mask)])
        actor, rows = self.config.actor_rollout_ref.actor, list(self.rows.values())
        names = {id for row in rows for id in row.ids}
        names |= {
            id for row in rows if row.mismatch for id in (row.mismatch.expected, row.mismatch.found) if id is not None
        }
        found = TokenStep(
            step=step,
            old="rollout" if self.bypass else "trainer",
            clip=(actor.clip_ratio_low, actor.clip_ratio_high),
            tasks=list(dict.fromkeys(row.task for row in rows)),
            pieces={id: piece(self.tokenizer, id) for id in sorted(names)},
            rows=rows,
        )
        log.tokens(found)
        return differences(found)

    def _log_probs(self) -> dict[str, list[float]]:
        """Compute log-probabilities of the trained rows under the current weights.

        The values of tokens that were not sampled mean nothing.
        """
        keys = self._trained
        if not keys:
            return {}
        ids = [torch.tensor(self.rows[key].ids) for key in keys]
        sampled = [_sampled(self.rows[key]) for key in keys]
        # Padded so that every rank gets the same number of whole micro-batches.
        multiple = len(set(self.workers._dispatch_info["actor"]))
        multiple *= self.config.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu or 1
        padding = -len(ids) % multiple
        ids, sampled = ids + ids[:1] * padding, sampled + sampled[:1] * padding
        nested = {
            "input_ids": ids,
            "position_ids": [torch.arange(len(one)) for one in ids],
            "loss_mask": sampled,
        }
        data = TensorDict(
            {name: torch.nested.as_nested_tensor(rows, layout=torch.jagged) for name, rows in nested.items()},
            batch_size=len(ids),
        )
        temperature = self.config.actor_rollout_ref.rollout.temperature
        tu.assign_non_tensor(data, calculate_entropy=False, compute_loss=False, temperature=temperature)
        found = tu.get(self.workers.compute_log_prob(data), "log_probs").unbind()
        # The model's log-probability of a token is at the position of the preceding token.
        return {key: [0.0, *row.tolist()[:-1]] for key, row in zip(keys, found, strict=False)}


def _sampled(row: TokenRow) -> torch.Tensor:
    """Return 1 for the sampled tokens of a row: logits of others would take several times as long."""
    mask = torch.zeros(len(row.ids), dtype=torch.long)
    for call in row.calls:
        mask[call.start : call.start + len(call.mask)] = 1
    return mask


def chosen(rows: Mapping[str, Any], credit: Mapping[str, Sequence[CallSpan]], number: int) -> list[str]:
    """Return the rows of the `number` groups with the largest weight in the update; ties go to the one with more rows.

    The weight of a group is the sum of |advantage| * weight over its tokens.
    """

    def weight(keys: Sequence[str]) -> tuple[float, int]:
        calls = [call for key in keys for call in credit.get(key, ())]
        return round(sum(call.length * call.weight * abs(call.advantage) for call in calls), 9), len(keys)

    groups: dict[str, list[str]] = {}
    for key in rows:
        groups.setdefault(question_of(session_of(key)), []).append(key)
    best = sorted(groups.values(), key=weight, reverse=True)[:number]
    return [key for keys in best for key in sorted(keys, key=_place)]


def _place(key: str) -> tuple[int, int]:
    """Return the number of the trajectory in its group, and of the row in the trajectory."""
    _, row = key.rsplit("_", 1)
    return int(session_of(key).rsplit("_", 1)[1]), int(row)


def token_row(
    row: Mapping[str, Any],
    credit: Sequence[CallSpan] | None,
    prompt: list[int],
    response: list[int],
    mask: list[int],
    logprobs: list[float],
) -> TokenRow:
    """Build the record of a row before the trainer has computed its log-probabilities.

    `row` is the `extra_fields` of the agent loop, `credit` None if the row is not trained on, and `mask` 1 for tokens
    that are. The ids of the response, its mask and its log-probabilities, as sampled, are of the same length.
    """
    calls = []
    for number, ((start, length), (node, turn)) in enumerate(zip(row["spans"], row["names"], strict=True)):
        _, _, advantage, weight = credit[number] if credit else (start, length, math.nan, None)
        own = slice(start, start + length)
        calls.append(
            Sampled(
                start=len(prompt) + start,
                node=node,
                turn=turn,
                mask=mask[own],
                advantage=kept([advantage])[0],
                weight=weight,
                rollout=kept(logprobs[own]),
            )
        )
    return TokenRow(
        task=row["task"],
        rollout=row["rollout"],
        status=row["status"],
        reward=kept([row["reward"]])[0] if row["rewarded"] else None,
        ids=[*prompt, *response],
        calls=calls,
        mismatch=row["mismatch"],
    )


def piece(tokenizer: Any, id: int) -> str:
    """Return the text of a token, or its vocabulary entry if it is not a whole character."""
    text = str(tokenizer.decode([id]))
    return text if "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(id))
