"""What this process and those that it has started use. Linux only."""

import os
import time
from collections.abc import Iterator
from pathlib import Path


def cpu_seconds() -> float:
    """Processor time so far, of user and kernel, all threads."""
    ticks = os.sysconf("SC_CLK_TCK")
    others = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in _children(os.getpid()))
    return time.process_time() + sum((int(fields[11]) + int(fields[12])) / ticks for fields in others)


def resident_bytes() -> int:
    """Memory in use now."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most memory that was ever in use, each process by itself."""
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
    """Children, theirs, and so on. A child belongs to the thread that started it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _children(child)
