"""The engine of a run: settings that follow from others, what verl's processes request, and what it reads from the
environment.
"""

import math
import os
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.rl.algorithms.sft import SFT
from agentflow.rl.micro.engine import usable_cores


def on_cpu(config: DictConfig) -> bool:
    """Return whether vLLM samples, and on a CPU."""
    return bool(config.actor_rollout_ref.rollout.name == "vllm" and config.trainer.device == "cpu")


def complete(config: DictConfig) -> None:
    """Set what follows from other settings: the engine's context, unless it is set, room for a row in a batch."""
    actor, ref, rollout = (config.actor_rollout_ref[name] for name in ("actor", "ref", "rollout"))
    longest = rollout.prompt_length + rollout.response_length
    if rollout.max_model_len is None:
        with open_dict(config):
            rollout.max_model_len = longest
    for group, name in (
        (actor, "ppo_max_token_len_per_gpu"),
        (ref, "log_prob_max_token_len_per_gpu"),
        (rollout, "log_prob_max_token_len_per_gpu"),
    ):
        group[name] = max(group[name], longest)  # verl refuses a row that is longer, in the step that has it
    if config.trainer.device == "cpu" and config.trainer.nnodes * config.trainer.n_gpus_per_node > 1:
        _row_by_row(actor, "use_dynamic_bsz", "ppo_micro_batch_size_per_gpu")
        for group in (ref, rollout):
            _row_by_row(group, "log_prob_use_dynamic_bsz", "log_prob_micro_batch_size_per_gpu")
    if config.flow.algorithm.name == SFT.model_fields["name"].default:
        with open_dict(config):  # its loss reads neither
            config.actor_rollout_ref.actor.use_kl_loss = False
            config.algorithm.rollout_correction = {"bypass_mode": True}


def _row_by_row(group: DictConfig, dynamic: str, size: str) -> None:
    """Compute rows by themselves: several ranks cannot share prefixes, and rows in one pass would need a mask."""
    with open_dict(group):
        group[dynamic], group[size] = False, 1


def places(config: DictConfig) -> int:
    """Return the number of Ray CPUs that verl's processes request.

    Ray CPUs are scheduling slots, not cores; the processes share the available cores. Requested are three for each rank
    (`RayResourcePool.max_colocate_count`), one each for the trainer, the queue's controller and each of its storage
    units, and one that every other process takes while it starts. Ray waits forever for CPUs that it does not have.
    """
    ranks = config.trainer.nnodes * config.trainer.n_gpus_per_node
    return int(3 * ranks + config.transfer_queue.backend.SimpleStorage.num_data_storage_units + 3)


CONCURRENCY = 16
"""Rollouts at once for each core where the engine samples on a CPU. With 96 on two cores, a token of the embedded model
takes 0.81 ms of processor, with 32 0.83 and with 16 0.93; but with 96 a rollout lasts, by its clock, three times as
long as with 32."""


def concurrency(config: DictConfig) -> int:
    """Return how many rollouts each rollout worker runs at once: what is set, or all that the engines can batch."""
    rollout, nodes = config.actor_rollout_ref.rollout, config.trainer.nnodes
    engines = max(1, nodes * config.trainer.n_gpus_per_node // rollout.tensor_model_parallel_size)
    most = rollout.max_num_seqs * engines
    if rollout.name == "micro" or config.trainer.device == "cpu":
        most = min(most, CONCURRENCY * nodes * max(2, usable_cores()))
    each: int = math.ceil((config.concurrency or most) / rollout.agent.num_workers)
    return each


def ray_options(config: DictConfig) -> dict[str, Any]:
    """Return the arguments of ray.init; a local Ray gets at least as many CPUs as the run requests."""
    options: dict[str, Any] = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)  # type: ignore[assignment]
    if config.ray_address is None and options.get("num_cpus") is None:
        options["num_cpus"] = max(places(config), usable_cores())
    return options


def attention_of(config: DictConfig) -> str:
    """Return the name of transformers' attention implementation; verl's default is flash_attention_2."""
    return str(
        config.actor_rollout_ref.model.get("override_config", {}).get("attn_implementation", "flash_attention_2")
    )


def environment(config: DictConfig) -> dict[str, str]:
    """Return the environment variables that vLLM reads; on a CPU, those that the user has set take precedence."""
    if config.actor_rollout_ref.rollout.name != "vllm":
        return {}
    found = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # GiB of KV cache; vLLM's default is a share of all memory. Threads are left to the scheduler, as are the trainer's.
    defaults = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"} if on_cpu(config) else {}
    return found | {key: os.environ.get(key, value) for key, value in defaults.items()}
