"""Several policies with weights of their own in verl's training worker, which has room for one.

verl's worker holds one model with its optimiser. Policies of one base differ only in the values of the weights that
learn, which are all weights, or a LoRA adapter. So the worker keeps the weights, the optimiser's state and the learning
rate schedule of every policy, and exchanges them: the model computes and updates the policy that is selected. All
policies begin with the weights that the run starts from, which are also the reference of each.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker

_State = tuple[list[torch.Tensor], Any, dict[str, Any], list[float]]
"""Weights, state of the optimiser, state of the schedule, and the learning rate of each group of weights."""


class Held:
    """The policies of an engine. Invariant: the engine has the state of the policy `selected`."""

    def __init__(self, engine: Any, names: Sequence[str]) -> None:
        """
        Args:
            engine: verl's engine: a module with its optimizer and lr_scheduler, which has made no update yet.
            names: Names of the policies; the first is selected.
        """
        self.engine, self.names, self.selected = engine, list(names), names[0]
        start = [weights.clone() for weights in self._weights()]
        self._kept: dict[str, _State] = {name: (start, {}, *self._schedule()) for name in self.names[1:]}

    def select(self, name: str) -> None:
        """Exchange the engine's state for that of the policy `name`."""
        if name == self.selected:
            return
        optimizer = self.engine.optimizer
        # The weights are copied, because modules and optimiser hold the tensors; the rest is exchanged.
        own = [weights.clone() for weights in self._weights()], optimizer.state, *self._schedule()
        weights, state, schedule, rates = self._kept.pop(name)
        for tensor, kept in zip(self._weights(), weights, strict=True):
            tensor.copy_(kept)
        optimizer.state = defaultdict(dict, state)
        self.engine.lr_scheduler.load_state_dict(schedule)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._kept[self.selected], self.selected = own, name

    @torch.no_grad()
    def _weights(self) -> list[torch.Tensor]:
        """Return this rank's part of all weights that learn."""
        for module in self.engine.module.modules():
            if isinstance(module, FSDPModule):
                module.reshard()  # after an inference, the root computes with a gathered copy, which would go stale
        parameters = [one for group in self.engine.optimizer.param_groups for one in group["params"]]
        return [one.to_local() if isinstance(one, DTensor) else one.detach() for one in parameters if one.requires_grad]

    def _schedule(self) -> tuple[dict[str, Any], list[float]]:
        rates = [group["lr"] for group in self.engine.optimizer.param_groups]
        return self.engine.lr_scheduler.state_dict(), rates


class PolicyWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """verl's worker with several policies, each in a folder of its name in a checkpoint."""

    held: Held

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def hold(self, names: Sequence[str]) -> None:
        """Begin with policies of these names, all with the model's weights."""
        self.held = Held(self.actor.engine, names)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def select(self, name: str) -> None:
        """Let the following calls compute and update the policy `name`."""
        self.held.select(name)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def load_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> None:
        """Load all policies."""
        for name in self.held.names:
            self.held.select(name)
            super().load_checkpoint(f"{local_path}/{name}", *args, **kwargs)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def save_checkpoint(
        self, local_path: str, hdfs_path: str | None = None, global_step: int = 0, max_ckpt_to_keep: int | None = None
    ) -> None:
        """Save all policies; `max_ckpt_to_keep` is per policy."""
        keep = max_ckpt_to_keep and max_ckpt_to_keep * len(self.held.names)
        for name in self.held.names:
            self.held.select(name)
            remote = f"{hdfs_path}/{name}" if hdfs_path else None
            super().save_checkpoint(f"{local_path}/{name}", remote, global_step, keep)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)  # type: ignore[untyped-decorator]
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> None:
        """Send the weights of all policies to the rollout servers."""
        for name in self.held.names:
            self.held.select(name)
            self.rollout.policy = name
            await super().update_weights(global_steps=global_steps, mode=mode)
