"""Available memory of the machine, or of the container that the process runs in."""

import math
from pathlib import Path

_CONTAINER = Path("/sys/fs/cgroup")
"""Files of the control group (version 2), as a container sees its own."""


def available() -> float:
    """Return the bytes available without reclaiming memory in use, or infinity if the system does not report them."""
    return min(1024 * _field(Path("/proc/meminfo"), "MemAvailable:"), _of_container(_CONTAINER))


def _of_container(top: Path) -> float:
    """Return what the limit leaves, without the part of the usage that can be reclaimed."""
    try:
        most, used = (top / "memory.max").read_text().strip(), int((top / "memory.current").read_text())
    except (OSError, ValueError):
        return math.inf
    if not most.isdigit():  # "max"
        return math.inf
    dropped = _field(top / "memory.stat", "inactive_file")
    return int(most) - used + (0 if dropped == math.inf else dropped)


def _field(path: Path, name: str) -> float:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return math.inf
    return next((float(line.split()[1]) for line in lines if line.split()[0] == name), math.inf)
