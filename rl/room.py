"""Resource checks of a run: Ray CPUs and attention-mask memory, before anything is started."""

import math
import os
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from agentflow.rl.settings import SettingsError

MASK = 8 << 30
"""Maximum size of one attention mask, in bytes."""


def places(config: DictConfig) -> int:
    """Return the number of Ray CPUs that verl's processes request.

    Ray CPUs are scheduling slots, not cores; the processes share the available cores. Requested are three for each rank
    (`RayResourcePool.max_colocate_count`), one each for the trainer, the queue's controller and each of its storage
    units, and one that every other process takes while it starts. Ray waits forever for CPUs that it does not have.
    """
    ranks = config.trainer.nnodes * config.trainer.n_gpus_per_node
    return int(3 * ranks + config.transfer_queue.backend.SimpleStorage.num_data_storage_units + 3)


def check_room(needed: int, free: float) -> None:
    """Raise SettingsError if Ray has fewer free CPUs than needed."""
    if free < needed:
        raise SettingsError(
            f"the run needs {needed} of Ray's CPUs, and {free:g} are free; wait, start Ray with more "
            "(ray start --num-cpus: places, not cores), or set fewer ranks or "
            "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
            code="too_few_cpus",
        )


def ray_options(config: DictConfig) -> dict[str, Any]:
    """Return the arguments of ray.init; a local Ray gets at least as many CPUs as the run requests."""
    options: dict[str, Any] = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)  # type: ignore[assignment]
    if config.ray_address is None:
        needed = places(config)
        if options.get("num_cpus") is None:
            options["num_cpus"] = max(needed, len(os.sched_getaffinity(0)))
        check_room(needed, options["num_cpus"])
    return options


def attention_of(config: DictConfig) -> str:
    """Return the name of transformers' attention implementation; verl's default is flash_attention_2."""
    return str(
        config.actor_rollout_ref.model.get("override_config", {}).get("attn_implementation", "flash_attention_2")
    )


def check_attention(config: DictConfig) -> None:
    """Raise SettingsError if the policy needs flash-attn and it is missing, as transformers would in each worker."""
    if attention_of(config) == "flash_attention_2" and find_spec("flash_attn") is None:
        raise SettingsError(
            "attn_implementation=flash_attention_2 needs flash-attn, which has to be built for this torch and CUDA "
            "(pip install flash-attn --no-build-isolation); or set "
            "actor_rollout_ref.model.override_config.attn_implementation=sdpa and compute one row at a time",
            code="no_flash_attn",
        )


def check_masks(config: DictConfig) -> None:
    """Raise SettingsError if the attention mask of concatenated rows would exceed MASK bytes.

    For concatenated rows, transformers' `sdpa` and `eager` allocate a mask [tokens, tokens] of up to four bytes per
    entry. flash_attention_2 and flex_attention allocate none.
    """
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    attention = attention_of(config)
    if not model.use_remove_padding or attention not in ("sdpa", "eager"):
        return
    actor, ref = config.actor_rollout_ref.actor, config.actor_rollout_ref.ref
    limits = {
        "actor.ppo_max_token_len_per_gpu": actor.use_dynamic_bsz and actor.ppo_max_token_len_per_gpu,
        "ref.log_prob_max_token_len_per_gpu": ref.log_prob_use_dynamic_bsz and ref.log_prob_max_token_len_per_gpu,
        "rollout.log_prob_max_token_len_per_gpu": rollout.log_prob_use_dynamic_bsz
        and rollout.log_prob_max_token_len_per_gpu,
    }
    for name, tokens in limits.items():
        if 4 * tokens**2 > MASK:
            raise SettingsError(
                f"actor_rollout_ref.{name}={tokens} with attn_implementation={attention} makes a mask of "
                f"{4 * tokens**2 >> 30} GiB; set at most {math.isqrt(MASK // 4)}, or "
                "attn_implementation=flash_attention_2",
                code="mask_too_large",
            )
