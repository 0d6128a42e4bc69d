"""Lets verl 0.9.1 train on a CPU. `VERL_USE_EXTERNAL_MODULES` loads this module wherever verl is imported.

verl asks a platform object for its device, and knows CUDA and NPU ones. Here is one for the CPU, which is chosen by
`VERL_PLATFORM=cpu` alone (see `cpu_environment`), two repairs in torch's interface that verl trips over there, and a
function of verl's that a CPU needs in another form. No file of verl is edited; each repair names its place in 0.9.1.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
import torch.distributed
import torch.distributed.fsdp
import verl.utils.torch_functional
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _CpuModule:
    """`torch.cpu`, with what verl calls on `torch.cuda`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def _resident(self, *args: Any) -> int:
        return int(psutil.Process().memory_info().rss)

    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _resident

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    empty_cache = ipc_collect = reset_peak_memory_stats = set_device = synchronize = _nothing

    def is_available(self) -> bool:
        return True

    def mem_get_info(self, *args: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)

    def current_device(self) -> str:
        return "cpu"

    def get_device_name(self, *args: Any) -> str:
        return "cpu"

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, *args: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *args: Any) -> None:
        torch.set_rng_state(state)


_MODULE = _CpuModule()


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """verl's view of a CPU as its device."""

    @property
    def device_name(self) -> str:
        """The torch device."""
        return "cpu"

    @property
    def vendor_name(self) -> str:
        """Who made it."""
        return "cpu"

    @property
    def device_module(self) -> _CpuModule:
        """What stands for `torch.cuda`."""
        return _MODULE

    def is_available(self) -> bool:
        """Whether it can be used."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Whether verl may choose it by itself: never, a machine with a GPU has a CPU too."""
        return False

    def current_device(self) -> str:
        """The device of tensors and of FSDP."""
        return "cpu"

    def device_count(self) -> int:
        """Devices of one process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs beside the program."""

    def manual_seed(self, seed: int) -> None:
        """Seeds torch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seeds torch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """Has no allocator of its own."""

    def empty_cache(self) -> None:
        """Has no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """Has no CUDA capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """What torch.distributed uses."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """The variable by which Ray assigns devices."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Has no profiler."""
        yield

    def profiler_start(self) -> None:
        """Has no profiler."""

    def profiler_stop(self) -> None:
        """Has no profiler."""

    def ray_resource_name(self) -> str:
        """What placement groups ask for; `ray.init(num_gpus=...)` says that there are some."""
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, float]:
        """The same for an actor."""
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        """Variables by which Ray leaves the assignment alone."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        """Whether devices share memory handles."""
        return False

    def cudart(self) -> None:
        """Has no CUDA."""


_init_process_group = torch.distributed.init_process_group


def _init_without_duplicates(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """verl/utils/distributed.py:61 and 89 ask for "cpu:gloo,<device>:<backend>"; torch refuses "cpu:gloo" twice."""
    if isinstance(backend, str):
        backend = ",".join(dict.fromkeys(backend.split(",")))
    return _init_process_group(backend, *args, **kwargs)


def _nothing_to_offload(pin_memory: bool = True) -> torch.distributed.fsdp.OffloadPolicy:
    """verl/workers/engine/fsdp/transformer_impl.py:462 offloads the reference model to pinned memory of the CPU."""
    return torch.distributed.fsdp.OffloadPolicy()


LOGITS = 1 << 22
"""How many logits are exponentiated at a time: 16 MiB."""


_log_probs = verl.utils.torch_functional.logprobs_from_logits_v2


def log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [...] of `labels` [...] under `logits` [..., vocabulary].

    verl/utils/torch_functional.py:197 sums the logits of one token at a time, to save memory: a fifth of a step of the
    micro model, forward and backward. Here it is as many tokens as keep the memory small, with the same results.
    """
    if logits.dtype not in (torch.float32, torch.float64):  # logsumexp is too coarse there, and verl does otherwise
        found: torch.Tensor = _log_probs(logits, labels)
        return found
    chosen = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    rows = max(1, LOGITS // logits.shape[-1])
    return chosen - torch.cat([some.logsumexp(-1) for some in torch.split(logits, rows)])


if os.environ.get("VERL_PLATFORM") == "cpu":
    verl.utils.torch_functional.logprobs_from_logits_v2 = log_probs
    torch.distributed.init_process_group = _init_without_duplicates
    torch.distributed.fsdp.CPUOffloadPolicy = _nothing_to_offload  # type: ignore[assignment, misc]
