"""Looks at a few groups of each step through the trainer's eyes, and keeps what it sees (`agentflow.rl.tokens`).

The loss has each token's log-probability too, but on micro-batches in other processes, without the names of the rows,
and before the update. So the trainer is asked for those of the chosen rows: once before the update where the loss takes
the rollout's for the old ones, and once after it. Nothing of what is trained depends on that.
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

from agentflow.rl.batch import Span, question_of, session_of
from agentflow.rl.rollout import RolloutStatus
from agentflow.rl.tokens import Sampled, TokenRow, TokenStep, kept
from agentflow.rl.training_log import TrainingLog

FIELDS = ["prompts", "responses", "response_mask", "rollout_log_probs"]


class TokenInspector:
    """What is kept of the step under way."""

    def __init__(self, config: DictConfig, tokenizer: Any, workers: Any) -> None:
        """
        Args:
            config: Of the run.
            tokenizer: Of the policy.
            workers: verl's worker group of the actor.
        """
        correction = config.algorithm.get("rollout_correction")
        self.config, self.tokenizer, self.workers = config, tokenizer, workers
        self.bypass = bool(correction is not None and correction.get("bypass_mode", False))
        self.rows: dict[str, TokenRow] = {}
        self._trained: list[str] = []

    def choose(
        self,
        batch: KVBatchMeta,
        rows: Mapping[str, Any],
        rewards: Mapping[str, float],
        credit: Mapping[str, Sequence[Span]],
    ) -> None:
        """Takes the groups of a step that are looked at; none of their rows has been dropped yet."""
        keys = chosen(rows, credit, self.config.token_groups)
        self.rows, self._trained = {}, []
        if not keys:
            return
        found = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=FIELDS)
        columns = zip(*([one.tolist() for one in found[name].unbind()] for name in FIELDS), strict=True)
        for key, column in zip(keys, columns, strict=True):
            self.rows[key] = token_row(rows[key], rewards[key], credit.get(key), *column)

    def before_update(self, keys: Sequence[str], old_log_probs: torch.Tensor, mask: torch.Tensor) -> None:
        """Sees the rows that are trained on.

        Args:
            keys: Their names.
            old_log_probs: What the loss divides by, nested [rows, response].
            mask: What is trained on, padded [rows, response].
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

    def after_update(self, log: TrainingLog, step: int) -> None:
        """Sees them under the new weights, and writes the step's file."""
        if not self.rows:
            return
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

    def _log_probs(self) -> dict[str, list[float]]:
        """Of every token of the rows that are trained on, by the trainer's weights of now; 0.0 of a row's first."""
        if not self._trained:
            return {}
        ids = [torch.tensor(self.rows[key].ids) for key in self._trained]
        # As many rows for each rank, a micro-batch or more of them.
        multiple = len(set(self.workers._dispatch_info["actor"]))
        multiple *= self.config.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu or 1
        ids += [ids[0]] * (math.ceil(len(ids) / multiple) * multiple - len(ids))
        nested = {
            "input_ids": ids,
            "position_ids": [torch.arange(len(one)) for one in ids],
            "loss_mask": [torch.ones_like(one) for one in ids],
        }
        data = TensorDict(
            {name: torch.nested.as_nested_tensor(rows, layout=torch.jagged) for name, rows in nested.items()},
            batch_size=len(ids),
        )
        temperature = self.config.actor_rollout_ref.rollout.temperature
        tu.assign_non_tensor(data, calculate_entropy=False, compute_loss=False, temperature=temperature)
        found = tu.get(self.workers.compute_log_prob(data), "log_probs").unbind()
        # The model's log-probability of a token stands at the token before it.
        return {key: [0.0, *row.tolist()[:-1]] for key, row in zip(self._trained, found, strict=False)}


def chosen(rows: Mapping[str, Any], credit: Mapping[str, Sequence[Span]], number: int) -> list[str]:
    """The rows of the `number` groups that weigh most in the update; of two that weigh the same, that of more rows."""

    def weight(keys: Sequence[str]) -> tuple[float, int]:
        calls = [call for key in keys for call in credit.get(key, ())]
        return round(sum(call.length * call.weight * abs(call.advantage) for call in calls), 9), len(keys)

    groups: dict[str, list[str]] = {}
    for key in rows:
        groups.setdefault(question_of(session_of(key)), []).append(key)
    best = sorted(groups.values(), key=weight, reverse=True)[:number]
    return [key for keys in best for key in sorted(keys, key=_place)]


def _place(key: str) -> tuple[int, int]:
    """Number of the trajectory in its group and of the row in it."""
    _, row = key.rsplit("_", 1)
    return int(session_of(key).rsplit("_", 1)[1]), int(row)


def token_row(
    row: Mapping[str, Any],
    reward: float,
    credit: Sequence[Span] | None,
    prompt: list[int],
    response: list[int],
    mask: list[int],
    logprobs: list[float],
) -> TokenRow:
    """A row of which only its rollout is known.

    Args:
        row: What the agent loop said of it.
        reward: Of its trajectory.
        credit: Of its calls; None where it is left out.
        prompt: Its ids [prompt].
        response: Its ids [response].
        mask: Whether each is trained on [response].
        logprobs: Of each, as it was sampled [response].
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
        reward=kept([reward])[0] if row["status"] == RolloutStatus.OK else None,
        ids=[*prompt, *response],
        calls=calls,
        mismatch=row["mismatch"],
    )


def piece(tokenizer: Any, id: int) -> str:
    """The text of a token; of one that is no whole character, its name in the vocabulary."""
    text = str(tokenizer.decode([id]))
    return text if "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(id))
