"""Flow-GRPO on verl's trainer: advantages and weights of sampled tokens, and one line of metrics per step.

verl samples, computes log-probabilities, updates, validates and saves. This module overrides the steps that depend on
trajectories: the selection of rows to compute, their advantages and weights, the loss, and the metrics.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions
from verl.workers.utils.padding import response_to_nested

from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.rollout.batch import (
    CallSpan,
    advantages_of,
    assign_credit,
    batch_digest,
    matters,
    mini_batches,
    rows_with_padding,
    signal_of,
)
from agentflow.rl.run.alarm import MAX_DRIFT, MAX_EXACT_DRIFT
from agentflow.rl.run.checkpoints import keep_best
from agentflow.rl.run.training_log import Line, TrainingLog
from agentflow.rl.trainer.loss import flow_grpo_loss, supervised_loss
from agentflow.rl.trainer.prefetch import PrefetchingTrainer
from agentflow.rl.trainer.step_metrics import only_reward, rollout_metrics, staleness, why_nothing
from agentflow.rl.trainer.token_recorder import TokenInspector
from agentflow.rl.trainer.watch import SyncFailed, cause, exit_with_engine, within


class NothingToTrain(RuntimeError):
    """No rollout of a step can be trained on."""


class Alarmed(RuntimeError):
    """A step raised the alarm."""


class FlowTrainer(PrefetchingTrainer):
    """verl's trainer with Flow-GRPO's statistics and loss."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.log = TrainingLog(config.out, MAX_EXACT_DRIFT if _single_precision(config) else MAX_DRIFT)
        self.health_check: Callable[[], None] = lambda: None
        """Called between polls for finished rollouts; raises if a rollout worker cannot be restarted."""
        self.restarted: list[str] = []
        """Workers that were restarted since the last line of metrics.jsonl."""
        self._algorithm = algorithm_of(OmegaConf.to_container(config.flow.algorithm))  # type: ignore[arg-type]
        self._credit: dict[str, list[CallSpan]] = {}
        self._parts: list[list[str]] = []
        """Rows of each optimiser update of the step, without padding."""
        self._digest = ""
        self._figures: tuple[Mapping[str, Any], Mapping[str, float]] = {}, {}
        """Metrics and seconds of the last step, as they were when it had been trained."""

    def init(self) -> None:
        """Start all workers, load the last checkpoint, and delete the records and the best weights of later steps."""
        super().init()
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        loss = supervised_loss if self._algorithm.supervised else flow_grpo_loss
        self.actor_rollout_wg.set_loss_fn(partial(loss, config=actor))
        self.inspector = TokenInspector(self.config, self.tokenizer, self.actor_rollout_wg)
        self.log.rewind(self.global_steps)
        keep_best(self.log.out, self.log.accuracies())
        with open_dict(self.config):
            self.config.trainer.val_before_train = self._validates_first()

    def _validates_first(self) -> bool:
        """Return whether to validate before training: if it is due, and no earlier process of the run has done it."""
        every, step = self.config.trainer.test_freq, self.global_steps
        if self.config.trainer.val_only:
            return True
        if step == 0:
            due = self.config.trainer.val_before_train
        else:
            due = every > 0 and (step % every == 0 or step >= self.total_training_steps)
        return due and all((line["split"], line["step"]) != ("test", step) for line in self.log.lines())

    def on_init_end(self) -> None:
        """Send the rollout servers the weights of the start or of the checkpoint."""
        ray.get([server.__ray_call__.remote(exit_with_engine) for server in self.llm_server_manager.server_handles])
        self._sync(super().on_init_end)

    def _sync(self, send: Callable[[], None]) -> None:
        """Send weights to the rollout servers: verl waits for an answer without a limit. Raises SyncFailed."""
        seconds = self.config.sync_seconds
        try:
            within(seconds, send)
        except TimeoutError as error:
            raise SyncFailed(
                f"the weight sync after step {self.global_steps} stalled: it took more than sync_seconds={seconds:g}"
            ) from error
        except ray.exceptions.RayError as error:
            raise SyncFailed(f"the weight sync after step {self.global_steps} failed: {cause(error)}") from error

    def begin_rollouts(self, step: int) -> None:
        """Prepare the run folder for a step's rollouts, and begin them."""
        self.log.begin(step, "train")
        super().begin_rollouts(step)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Sample and update, and record inspected tokens before the rollout servers receive the new weights."""
        began = time.monotonic()
        batch = super().step(metrics, timing_raw)
        with marked_timer("token_inspector", timing_raw):
            metrics.update(self.inspector.after_update(self.log, self.global_steps))
        self._figures = {**metrics, "batch": self._digest}, {**timing_raw, "step": time.monotonic() - began}
        return batch

    def _save_checkpoint(self) -> None:
        """Save a checkpoint, and the step's line first, since no later process of the run computes it."""
        self.log.set_pending(self.global_steps, *self._figures)
        super()._save_checkpoint()

    def on_train_begin(self) -> None:
        """Write the line of the checkpoint's step if the process that saved it was killed before it did."""
        super().on_train_begin()
        self._check_alarm(self.log.add_pending())

    def on_step_end(self) -> None:
        """Send the rollout servers the new weights."""
        self._sync(super().on_step_end)

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = self.config.flow.poll_seconds
        wait = buffer._wait_for_next_poll

        def watchful(*arguments: Any) -> float:
            self.health_check()
            return float(wait(*arguments))

        buffer._wait_for_next_poll = watchful
        return buffer

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """Assign credit to a step's rows and drop those that do not contribute to the update.

        verl calls this first, before it computes anything from the rows. Raises NothingToTrain.
        """
        fields = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
        rows = dict(zip(batch.keys, fields.pop("extra_fields").tolist(), strict=True))
        metrics.update(rollout_metrics(rows))
        metrics.update(signal_of(rows))
        if self.config.max_staleness:
            metrics.update(staleness(rows, self.global_steps))
        self._credit = assign_credit(rows, self._algorithm)
        self._digest = batch_digest(rows, self._credit)
        if not self._credit:
            raise NothingToTrain(why_nothing(rows))
        reward = only_reward(rows, self._credit)
        if self.global_steps == 1 and self.config.rehearsal and reward is not None:
            raise NothingToTrain(
                f"every rollout of the first step has the reward {reward:g}, from which nothing can be learnt; try "
                "easier or harder tasks, or a stronger model (rehearsal=false goes on)"
            )
        self.log.credit(self.global_steps, advantages_of(rows, self._credit))
        self.inspector.choose(batch, rows, self._credit)
        settings = self.config.actor_rollout_ref
        size = settings.actor.ppo_mini_batch_size * settings.rollout.n
        self._parts = mini_batches(rows, self._needed(batch.keys), updates=self.config.flow.updates, size=size)
        kept = [key for part in self._parts for key in part]
        if dropped := set(batch.keys) - set(kept):
            tq.kv_clear(keys=list(dropped), partition_id=batch.partition_id)
        batch = batch.select_keys(kept)
        metrics["rows_trained"] = len(batch)
        batch = super()._balance_batch(batch, metrics, **kwargs)
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        lengths = {key: tag["seq_len"] for key, tag in zip(batch.keys, batch.tags, strict=True)}
        places = {key: place for place, key in enumerate(batch.keys)}
        batch.reorder([places[key] for key in _laid_out(self._parts, lengths, ranks)])
        return batch

    def _needed(self, keys: Sequence[str]) -> list[str]:
        """Return the rows to train on, at least one."""
        if not self.config.flow.skip_settled_groups:
            return [key for key in keys if key in self._credit]
        actor = self.config.actor_rollout_ref.actor
        regularised = bool((actor.use_kl_loss and actor.kl_loss_coef) or actor.entropy_coeff)
        kept = [key for key in keys if matters(self._credit.get(key, ()), regularised=regularised)]
        return kept or [next(iter(self._credit))]

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Return the number of rows with padding, up to which verl pads; a rank computes whole micro-batches."""
        actor, ref, rollout = (self.config.actor_rollout_ref[name] for name in ("actor", "ref", "rollout"))
        sizes = [
            0 if actor.use_dynamic_bsz else actor.ppo_micro_batch_size_per_gpu,
            *(0 if one.log_prob_use_dynamic_bsz else one.log_prob_micro_batch_size_per_gpu for one in (ref, rollout)),
        ]
        return rows_with_padding(self._parts, ranks=dp_size, multiple=math.lcm(*(size or 1 for size in sizes)))

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Write `advantages` and `token_weights` of every row, and importance weights if they are configured."""
        names = ["response_mask", "rollout_log_probs", "old_log_probs"]
        found = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        lengths = found["response_mask"]
        data = DataProto(batch=found.to_padded_tensor())
        mask = data.batch["response_mask"]
        each = torch.zeros(mask.shape, dtype=torch.float32)
        weights = torch.zeros(mask.shape, dtype=torch.float32)
        updates = len(self._parts)
        for position, key in enumerate(batch.keys):
            for start, length, advantage, weight in self._credit.get(key, ()):
                each[position, start : start + length] = advantage
                weights[position, start : start + length] = weight * updates
        columns = {"advantages": each, "returns": each.clone(), "token_weights": weights}
        correction = self.config.algorithm.get("rollout_correction")
        if correction is not None and not correction.get("bypass_mode", False):
            data, measured = compute_rollout_correction_and_add_to_batch(data, correction)
            metrics.update(measured)
            columns["response_mask"] = data.batch["response_mask"]
            if "rollout_is_weights" in data.batch:
                columns["rollout_is_weights"] = data.batch["rollout_is_weights"]
        with marked_timer("token_inspector", self.timing_raw):
            self.inspector.before_update(batch.keys, found["old_log_probs"], columns.get("response_mask", mask))
        nested = {name: response_to_nested(column, lengths) for name, column in columns.items()}
        fields = TensorDict(nested, batch_size=len(batch))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Update the actor as verl does, but by `flow.updates` optimiser updates."""
        actor = self.config.actor_rollout_ref.actor
        mini_batch = len(batch) // len(self._parts)
        batch.extra_info.update(
            {
                "calculate_entropy": actor.calculate_entropy or bool(actor.entropy_coeff),
                "distillation_use_topk": False,
                "distillation_only": False,
                "global_batch_size": mini_batch,
                "mini_batch_size": mini_batch,
                "epochs": actor.ppo_epochs,
                "seed": actor.data_loader_seed,
                "dataloader_kwargs": {"shuffle": actor.shuffle},
                "temperature": self.config.actor_rollout_ref.rollout.temperature,
            }
        )
        output = rename_dict(self.actor_rollout_wg.update_actor(batch)["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(reduce_metrics(output))
        return batch

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        """Compute verl's metrics for TensorBoard, and write the step's line in metrics.jsonl."""
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        line = self.log.step(global_steps, {**metrics, "batch": self._digest}, timing_raw, self._restarted())
        self._check_alarm(line)

    def _check_alarm(self, line: Line | None) -> None:
        """Raise Alarmed if the step of this line raises the alarm and the run is to stop then."""
        if self.config.alarm == "stop" and line and (raised := line.get("alarm")):
            text = f"{raised['evidence']}; {raised['remedy']} (alarm=warn goes on as it is)"
            raise Alarmed(f"step {line['step']}: {text}")

    def _validate(self) -> dict[str, float]:
        """Run verl's validation, write its summary as a line in metrics.jsonl, and keep the best step's weights."""
        self.log.begin(self.global_steps, "test")
        found: dict[str, float] = super()._validate()
        self.log.validation(self.global_steps, self._restarted())
        keep_best(self.log.out, self.log.accuracies())
        return found

    def _restarted(self) -> list[str]:
        found = self.restarted.copy()
        self.restarted.clear()
        return found


def _single_precision(config: DictConfig) -> bool:
    """Return whether the engine that samples and the one that trains compute in single precision."""
    rollout = config.actor_rollout_ref.rollout
    trained_in = OmegaConf.select(config, "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype")
    return trained_in == "fp32" and (rollout.name == "micro" or rollout.dtype in ("float", "float32"))


def _laid_out(parts: Sequence[Sequence[str]], lengths: Mapping[str, int], ranks: int) -> list[str]:
    """Return the names of all rows in verl's order: those of each rank, and of a rank those of each update.

    `parts` are the rows of each update. `lengths` are the tokens of all rows, those included that pad the updates
    to the same number of rows. Ranks get the same number of rows of an update, of about the same number of tokens.
    """
    known = {key for part in parts for key in part}
    padding = (key for key in lengths if key not in known)
    padded = [[*part, *islice(padding, len(lengths) // len(parts) - len(part))] for part in parts]
    divided = []
    for part in padded:
        work = calculate_workload(torch.tensor([lengths[key] for key in part]))
        divided.append(get_seqlen_balanced_partitions(work, k_partitions=ranks, equal_size=True))
    return [part[row] for rank in range(ranks) for part, of in zip(padded, divided, strict=True) for row in of[rank]]
