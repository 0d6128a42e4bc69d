"""A step of the trainer's own methods in this process: rows, credit, log-probabilities, loss, updates.

The transfer queue is a dictionary, and the ranks compute one after the other, with verl's engine and its division into
mini-batches and micro-batches. Gradients are averaged over ranks as FSDP does, and the optimiser is plain descent.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import need_reference_policy
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.torch_functional import entropy_from_logits
from verl.workers.config import FSDPEngineConfig
from verl.workers.engine.fsdp import transformer_impl

from agentflow.graph.run.task import Task
from agentflow.rl.rollout.rollout import Rollout
from agentflow.rl.trainer.agent_loop import FlowAgentLoop
from agentflow.rl.trainer.flow_trainer import FlowTrainer
from agentflow.rl.trainer.loops import FlowLoopWorker
from agentflow.rl.trainer.prefetch import PrefetchingTrainer
from agentflow.rl.trainer.shared_prefix import SharedPrefixEngine, forward

TOKENIZER = SimpleNamespace(eos_token_id=1)


class Queue:
    """The transfer queue: fields and tags by row."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, Any] = {}

    def get(
        self, keys: Sequence[str], partition_id: str = "", select_fields: Sequence[str] | None = None
    ) -> TensorDict:
        columns = {name: [self.fields[key][name] for key in keys] for name in select_fields or self.fields[keys[0]]}
        tensors = {
            name: torch.nested.as_nested_tensor(column, layout=torch.jagged)
            if isinstance(column[0], torch.Tensor)
            else NonTensorStack(*column)
            for name, column in columns.items()
        }
        return TensorDict(tensors, batch_size=len(keys))

    def put(self, keys: Sequence[str], partition_id: str, fields: TensorDict, tags: Any = None) -> KVBatchMeta:
        self.tags |= dict(zip(keys, tags or (), strict=False))
        for name, column in fields.items():
            values = column.unbind() if isinstance(column, torch.Tensor) else column.tolist()
            for key, value in zip(keys, values, strict=True):
                self.fields.setdefault(key, {})[name] = value
        return self.batch(keys)

    async def aput(self, **given: Any) -> KVBatchMeta:
        return self.put(**given)

    def clear(self, keys: Sequence[str], partition_id: str) -> None:
        for key in keys:
            del self.fields[key]

    def batch(self, keys: Sequence[str]) -> KVBatchMeta:
        return KVBatchMeta(keys=list(keys), tags=[self.tags[key] for key in keys], partition_id="train")


class Workers:
    """verl's worker group: `ranks` engines over the same weights, one after the other."""

    def __init__(self, model: Any, queue: Queue, config: DictConfig, *, ranks: int, shared: bool) -> None:
        self.queue, self.ranks, self.model = queue, ranks, model
        self._dispatch_info = {"actor": list(range(ranks))}
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.descend: Callable[[int], None] = lambda update: None
        self.losses: list[float] = []
        engine = SharedPrefixEngine.__new__(SharedPrefixEngine)
        engine.use_ulysses_sp = engine.pad_to_length = False
        engine.engine_config = FSDPEngineConfig(forward_only=True)
        engine.ulysses_sequence_parallel_size, engine._autocast_dtype = 1, torch.float32
        engine.get_data_parallel_group, engine.get_data_parallel_size = lambda: None, lambda: ranks  # type: ignore[method-assign]
        engine.compute_entropy_from_logits, engine.module, engine.shared = entropy_from_logits, model, shared
        if shared:
            model.forward = partial(forward, model.forward)
        self.engine = engine
        actor = config.actor_rollout_ref.actor
        self.sizes = {
            "use_dynamic_bsz": actor.use_dynamic_bsz,
            "max_token_len_per_gpu": 150,
            "micro_batch_size_per_gpu": actor.ppo_micro_batch_size_per_gpu,
        }

    def set_loss_fn(self, loss: Callable[..., Any]) -> None:
        self.loss = loss

    def _shards(self, batch: KVBatchMeta) -> Iterator[tuple[list[str], TensorDict]]:
        """The rows of each rank, as verl dispatches them."""
        each = len(batch) // self.ranks
        assert each * self.ranks == len(batch)
        known = [self.queue.fields[key] for key in batch.keys]
        names = [name for name, value in known[0].items() if isinstance(value, torch.Tensor) and value.ndim]
        names = [name for name in names if all(name in fields for fields in known)]
        for start in range(0, len(batch), each):
            keys = batch.keys[start : start + each]
            data = self.queue.get(keys, select_fields=names)
            tu.assign_non_tensor(data, **batch.extra_info, **self.sizes)
            yield keys, data

    def compute_log_prob(self, batch: KVBatchMeta) -> KVBatchMeta:
        adapter = self.model.disable_adapter() if batch.extra_info.pop("no_lora_adapter", False) else nullcontext()
        with adapter:
            for keys, data in self._shards(batch):
                found = self.engine.forward_backward_batch(data, None, forward_only=True)["model_output"]
                self.queue.put(keys, "train", TensorDict(dict(found), batch_size=len(keys)))
        return batch

    compute_ref_log_prob = compute_log_prob

    def update_actor(self, batch: KVBatchMeta) -> dict[str, Any]:
        iterators = []
        for rank, (_, data) in enumerate(self._shards(batch)):
            size, epochs, seed, options = (
                tu.pop(data, key=name) for name in ("mini_batch_size", "epochs", "seed", "dataloader_kwargs")
            )
            assert size % self.ranks == 0
            iterators.append(tu.make_iterator(data, size // self.ranks, epochs, seed + rank, dataloader_kwargs=options))
        for update, parts in enumerate(zip(*iterators, strict=True)):
            found = [self.engine.forward_backward_batch(part, self.loss)["loss"] for part in parts]
            self.losses.append(sum(map(sum, found)) / self.ranks)
            for parameter in self.parameters:
                parameter.grad = parameter.grad / self.ranks if parameter.grad is not None else None
            self.descend(update)
        return {"metrics": {"mfu": [0.0]}}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue in place of the transfer queue, and verl's trainer and device in this process."""
    found = Queue()
    for name, own in (("kv_batch_get", found.get), ("kv_batch_put", found.put), ("kv_clear", found.clear)):
        monkeypatch.setattr(tq, name, own)
    monkeypatch.setattr(tq, "async_kv_batch_put", found.aput)
    for name in ("get_device_id", "get_device_name"):
        monkeypatch.setattr(transformer_impl, name, lambda: "cpu")

    def begin(self: Any, config: DictConfig) -> None:
        self.config, self.use_reference_policy, self.use_critic = config, need_reference_policy(config), False

    monkeypatch.setattr(PPOTrainerSync, "__init__", begin)
    monkeypatch.setattr(PrefetchingTrainer, "init", lambda self: None)
    return found


def put(rollouts: Sequence[tuple[str, int, Rollout]], queue: Queue, config: DictConfig) -> None:
    """Put rollouts, each with its question and number, into the queue, as verl's workers do."""
    loop, worker = FlowAgentLoop.__new__(FlowAgentLoop), FlowLoopWorker.__new__(FlowLoopWorker)
    loop.rollout_config, loop.tokenizer = config.actor_rollout_ref.rollout, TOKENIZER
    loop.settings = SimpleNamespace(flow=config.flow)  # type: ignore[assignment]
    worker.reward_loop_worker_handles = worker.processor = None
    worker.distillation_enabled = False
    for question, number, rollout in rollouts:
        task = Task(id=question, question=question, gold="")
        row = {"extra_info": {"task": task.model_dump_json()}, "session_id": number, "global_steps": 1}
        given = {"uid": f"uid{question}", **row, "validate": False}
        asyncio.run(worker._agent_loop_postprocess(loop.outputs(rollout, row), **given))


def trained(config: DictConfig, queue: Queue, actor: Workers, frozen: Workers | None, out: Path) -> FlowTrainer:
    """Train a step on the rows of the queue; without `frozen`, the reference is the actor without its adapter."""
    trainer = FlowTrainer(config)
    trainer.global_steps, trainer.total_training_steps, trainer.local_trigger_step = 1, 2, 0
    trainer.tokenizer, trainer.timing_raw = TOKENIZER, {}
    trainer.actor_rollout_wg, trainer.ref_policy_wg, trainer.ref_in_actor = actor, frozen, frozen is None
    known: dict[str, list[float]] = {}
    trainer.log = SimpleNamespace(  # type: ignore[assignment]
        out=out, rewind=lambda step: None, accuracies=dict, lines=list, credit=lambda step, found: known.update(found)
    )
    trainer.init()
    keys = list(queue.fields)
    random.Random(0).shuffle(keys)  # rollouts end in any order
    trainer.replay_buffer = SimpleNamespace(sample=lambda **_: (queue.batch(keys), {}))
    trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=())
    trainer.on_sample_begin = trainer.on_sample_end = lambda: None
    trainer._step_once({}, trainer.timing_raw, len(keys))
    return trainer
