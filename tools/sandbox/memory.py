"""How much memory could be had here: that of the machine, or what a container leaves of it."""

import math
from pathlib import Path

_CONTAINERS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Version 2 and version 1 of control groups, as a container sees its own: limit, use, and what of it can be dropped."""


def available() -> float:
    """Bytes that could be had without taking any from others; infinity where the system does not say."""
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
