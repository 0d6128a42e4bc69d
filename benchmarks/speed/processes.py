"""Resource use of this process and its children. Linux only."""

import os
import time
from collections.abc import Iterator
from pathlib import Path


def cpu_seconds() -> float:
    """Return the CPU seconds so far, user and kernel, of all threads."""
    ticks = os.sysconf("SC_CLK_TCK")
    others = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in _children(os.getpid()))
    return time.process_time() + sum((int(fields[11]) + int(fields[12])) / ticks for fields in others)


def resident_bytes() -> int:
    """Return the resident memory."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """Return the sum of each process's peak memory."""
    return _status("VmHWM")


def _status(field: str) -> int:
    lines = (
        line
        for pid in ("self", *_children(os.getpid()))
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith(f"{field}:")
    )
    return sum(1024 * int(line.split()[1]) for line in lines)


def _children(pid: int) -> Iterator[int]:
    """Yield all descendants. A child belongs to the thread that started it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _children(child)
