"""The matrix kernels that the micro model needs: a row's product must not depend on the rows beside it.

OpenBLAS, which numpy brings, chooses its kernels by the processor. Those for AVX-512 and those for AVX treat all rows
alike. Those for AVX2 (Haswell, Zen to Zen 3) add up every other six rows, and those that are left over, in another
order, so that the last bits of a log-probability depend on what else is in the batch. Processors that would get them
get those for AVX, which made the engine 2 to 12 % slower.
"""

import os
from pathlib import Path

VARIABLE = "OPENBLAS_CORETYPE"
"""Read by OpenBLAS when it is loaded, with numpy."""


def kernels(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """What the environment needs before numpy is loaded; nothing where OpenBLAS chooses well, or nobody knows."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
    return {VARIABLE: "Sandybridge"} if "avx2" in flags and "avx512f" not in flags else {}


def choose_kernels() -> None:
    """For this process, which has not loaded numpy yet, and those that it starts; a user's own choice stays."""
    for name, value in kernels().items():
        os.environ.setdefault(name, value)
