"""Rollout backend of verl for the micro model: `actor_rollout_ref.rollout.name=micro`.

A backend of verl has two parts: a replica, which starts the server that agent loops call, and an adapter in each
training worker, which sends new weights to the server. The server uses the engine of the embedded model, so training
samples in the same way as inference. Importing this module registers both parts (`model.external_lib`).
"""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroConfig, MicroModel, Weights
from agentflow.rl.micro.tokenizer import MicroTokenizer

NAME = "micro"


class MicroServer:
    """Ray actor that holds the current weights of the policy and samples from them."""

    def __init__(self, path: str, slots: int) -> None:
        model = MicroModel.load(Path(path))
        self._config: MicroConfig = model.config
        self._engine = Engine(model, tokenizer=MicroTokenizer.load(Path(path)), slots=slots)

    async def generate(
        self,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: object = None,
        video_data: object = None,
    ) -> TokenOutput:
        """Sample a continuation of `prompt_ids`; returns its ids with their log-probabilities."""
        future = self._engine.submit(
            prompt_ids,
            temperature=sampling_params.get("temperature", 1.0),
            top_p=sampling_params.get("top_p", 1.0),
            max_tokens=sampling_params.get("max_tokens"),
            stop=sampling_params.get("stop") or (),
            seed=sampling_params.get("seed"),
        )
        completion = await asyncio.wrap_future(future)
        return TokenOutput(
            token_ids=completion.token_ids,
            log_probs=completion.logprobs,
            stop_reason="completed" if completion.finish_reason == "stop" else "length",
            extra_fields={"global_steps": completion.version},
        )

    def load_weights(self, weights: Weights, step: int) -> None:
        """Replace the weights by those after a training step; later requests are sampled from them."""
        self._engine.replace(MicroModel(self._config, weights), step)

    async def ready(self) -> None:
        """Return once the server has started."""

    async def hook(self, *args: object, **kwargs: object) -> None:
        """Do nothing when verl calls this around a step.

        The server shares no device with the trainer, new weights come with an empty cache, and requests end with the
        weights that they began with.
        """

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = hook
    abort_all_requests = resume_generation = start_profile = stop_profile = hook


class MicroReplica(RolloutReplica):  # type: ignore[misc]
    """Replica that starts the server."""

    async def launch_servers(self) -> None:
        """Start the server on its first worker's machine; called once by verl."""
        machine = await self.workers[0].__ray_call__.remote(lambda worker: ray.get_runtime_context().get_node_id())
        server = (
            ray.remote(MicroServer)
            .options(
                name=_server_name(self.replica_rank),
                num_cpus=0,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(machine, soft=False),
            )
            .remote(self.model_config.path, self.config.max_num_seqs)
        )
        await server.ready.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"{NAME}-{self.replica_rank}"


class MicroRollout(BaseRollout):  # type: ignore[misc]
    """Adapter in a training worker that sends the worker's weights to the server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        ranks = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self._replica, self._rank = divmod(int(os.environ["RANK"]), ranks)
        if replica_rank != -1:
            self._replica = replica_rank

    async def resume(self, tags: list[str]) -> None:
        """Nothing to do."""

    async def release(self) -> None:
        """Nothing to do."""

    @torch.no_grad()
    async def update_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None, **kwargs: object
    ) -> None:
        """Send new weights to the server; called by verl after each step.

        Every rank must iterate over `weights`, because that gathers them from all ranks; only rank 0 sends them.
        """
        tensors = {name: tensor.detach().to("cpu", torch.float32).numpy() for name, tensor in weights}
        if self._rank != 0:
            return
        server = ray.get_actor(_server_name(self._replica))
        await server.load_weights.remote(tensors, global_steps or 0)


def _server_name(replica: int) -> str:
    return f"agentflow_{NAME}_{replica}"


RolloutReplicaRegistry.register(NAME, lambda: MicroReplica)
_ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.{MicroRollout.__name__}"
