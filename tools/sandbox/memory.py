"""Available memory of the machine, or of the container that the process runs in."""

import math
from pathlib import Path

_CONTAINERS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of control groups version 2 and 1, as a container sees its own: limit, usage, and the reclaimable part of it.
"""


def available() -> float:
    """Return the bytes available without reclaiming memory in use, or infinity if the system does not report them."""
    return min(_of_machine(), *(_of_container(Path(top), *names) for top, *names in _CONTAINERS))


def _of_machine() -> float:
    return 1024 * _field(Path("/proc/meminfo"), "MemAvailable:")


def _of_container(top: Path, limit: str, usage: str, droppable: str) -> float:
    try:
        most, used = (top / limit).read_text().strip(), int((top / usage).read_text())
    except (OSError, ValueError):
        return math.inf
    if not most.isdigit():  # "max"
        return math.inf
    dropped = _field(top / "memory.stat", droppable)
    return int(most) - used + (0 if dropped == math.inf else dropped)


def _field(path: Path, name: str) -> float:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return math.inf
    return next((float(line.split()[1]) for line in lines if line.split()[0] == name), math.inf)
