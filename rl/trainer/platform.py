"""CPU platform for verl 0.9.1. `VERL_USE_EXTERNAL_MODULES` loads this module wherever verl is imported.

verl gets its device from a platform object and has those for CUDA and NPU. This module adds one for the CPU, which is
selected only by `VERL_PLATFORM=cpu` (see `cpu_environment`). It also patches two torch functions that verl calls in a
way that fails on a CPU, one function of verl that is slow there, and vLLM (see `vllm_cpu`). No file of verl is edited;
each patch names the place in 0.9.1 that needs it.
"""

import os
import sys
from contextlib import nullcontext
from typing import Any

import psutil
import torch
import torch.distributed
import torch.distributed.fsdp
import verl.utils.torch_functional
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

from agentflow.rl.trainer.vllm_cpu import answer_for_vllm, apply_adapters_by_slot, keep_linear_weights


def _always(value: Any) -> Any:
    """Return a method that returns `value`, whatever it is asked."""
    return lambda self, *args, **kwargs: value


class _CpuModule:
    """`torch.cpu` with the functions of `torch.cuda` that verl calls."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def _resident(self, *args: Any) -> int:
        return int(psutil.Process().memory_info().rss)

    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _resident

    empty_cache = ipc_collect = reset_peak_memory_stats = set_device = synchronize = _always(None)
    get_device_name = _always("cpu")
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    def mem_get_info(self, *args: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)


_MODULE = _CpuModule()


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """verl's view of a CPU: one device without an allocator, a profiler or a CUDA runtime, and synchronous."""

    device_name = vendor_name = "cpu"
    device_module = _MODULE
    """The module that verl uses instead of `torch.cuda`."""
    is_available = _always(True)
    is_platform_available = _always(False)
    """verl never selects the CPU by itself: a machine with a GPU has a CPU too."""
    current_device = _always("cpu")
    device_count = _always(1)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = set_allocator_settings = empty_cache = _always(None)
    profiler_start = profiler_stop = cudart = _always(None)
    nvtx_range = _always(nullcontext())
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    """The variable by which Ray assigns devices."""
    ray_resource_name = _always("GPU")
    """The resource of placement groups; `ray.init(num_gpus=...)` declares that it exists."""
    ray_noset_envvars = _always(["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"])
    is_ipc_supported = _always(False)


_init_process_group = torch.distributed.init_process_group


def _init_without_duplicates(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Drop duplicate backends: verl/utils/distributed.py:61 and 89 pass "cpu:gloo,<device>:<backend>".

    On a CPU that is "cpu:gloo" twice, which torch rejects.
    """
    if isinstance(backend, str):
        backend = ",".join(dict.fromkeys(backend.split(",")))
    return _init_process_group(backend, *args, **kwargs)


def _nothing_to_offload(pin_memory: bool = True) -> torch.distributed.fsdp.OffloadPolicy:
    """Return a policy without offloading.

    verl/workers/engine/fsdp/transformer_impl.py:462 offloads the reference model to pinned CPU memory.
    """
    return torch.distributed.fsdp.OffloadPolicy()


LOGITS = 1 << 22
"""Number of logits that are exponentiated at a time: 16 MiB."""


def log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the log-probabilities [...] of `labels` [...] under `logits` [..., vocabulary], in float32 at least.

    verl/utils/torch_functional.py:197 processes one token at a time to save memory, which takes a fifth of a step of
    the micro model, forward and backward. This function processes `LOGITS` logits at a time, with the same results.
    """
    tokens = max(1, LOGITS // logits.shape[-1])
    parts = zip(torch.split(logits, tokens), torch.split(labels, tokens), strict=True)
    return torch.cat([_log_probs(part if part.dtype == torch.float64 else part.float(), own) for part, own in parts])


def _log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)


if os.environ.get("VERL_PLATFORM") == "cpu":
    verl.utils.torch_functional.logprobs_from_logits_v2 = log_probs
    torch.distributed.init_process_group = _init_without_duplicates
    torch.distributed.fsdp.CPUOffloadPolicy = _nothing_to_offload  # type: ignore[assignment, misc]
    answer_for_vllm()
    if "vllm" in sys.modules:  # vLLM's worker, which loads verl's extension of it
        keep_linear_weights()
        apply_adapters_by_slot()
