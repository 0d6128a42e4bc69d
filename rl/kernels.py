"""The kernels that a process computes with: what decides the last bits of its sums.

A sum of floats depends on the order of its terms. OpenBLAS, MKL, oneDNN, torch and numpy choose code, and so an order,
by the processor, by environment variables and by the number of threads. Two processes with equal `Kernels` and equal
packages compute the same bits; where something differs, results are equal up to rounding.
"""

import os
import platform
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

FORCED = (
    *("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY"),
    *("MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
)
"""Environment variables that choose kernels in place of the processor."""


class Kernels(BaseModel):
    """The kernel set of a process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    processor: str
    """Vendor, family and model."""
    numpy: list[str]
    """Processor features that numpy's loops use."""
    openblas: list[str]
    """Version and core type of each OpenBLAS that is loaded."""
    torch: str
    """Instruction set of torch's own kernels, such as AVX2."""
    device: str
    """Name of the GPU that trains, or cpu."""
    threads: int = Field(ge=1)
    """Threads of an operation of the trainer."""
    forced: dict[str, str]
    """Those of `FORCED` that are set."""

    def differences(self, other: "Kernels") -> list[str]:
        """Return what differs from `other`: "torch AVX2 (AVX512 before)"."""
        ours, theirs = self.model_dump(), other.model_dump()
        return [f"{name} {ours[name]} ({theirs[name]} before)" for name in ours if ours[name] != theirs[name]]


def kernels(threads: int, device: str) -> Kernels:
    """Return the kernel set of this process, as torch's `device` ("cpu" or "cuda") and `threads` complete it."""
    import numpy as np
    import torch
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    found = np.show_config(mode="dicts")["SIMD Extensions"]
    blas = {f"{one['version']} {one['architecture']}" for one in threadpool_info() if one["internal_api"] == "openblas"}
    return Kernels(
        processor=_processor(),
        numpy=[*found.get("baseline", []), *found.get("found", [])],
        openblas=sorted(blas),
        torch=torch.backends.cpu.get_cpu_capability(),
        device=torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else "cpu",
        threads=threads,
        forced={name: os.environ[name] for name in FORCED if name in os.environ},
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    named = [facts[name] for name in ("vendor_id", "cpu family", "model") if name in facts]
    return " ".join(named) or platform.machine()
