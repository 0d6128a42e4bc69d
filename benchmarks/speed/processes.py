"""Resource use of this process and its children. Linux only."""

import os
import time
from pathlib import Path


def cpu_seconds() -> float:
    """Return the CPU seconds so far, user and kernel, of all threads."""
    ticks = os.sysconf("SC_CLK_TCK")
    others = (_stat(pid) for pid in descendants(os.getpid()))
    return time.process_time() + sum((int(fields[11]) + int(fields[12])) / ticks for fields in others if fields)


def resident_bytes() -> int:
    """Return the resident memory."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """Return the sum of each process's peak memory."""
    return _status("VmHWM")


def _status(field: str) -> int:
    lines = (
        line
        for pid in (os.getpid(), *descendants(os.getpid()))
        for line in _read(pid, "status").splitlines()
        if line.startswith(f"{field}:")
    )
    return sum(1024 * int(line.split()[1]) for line in lines)


def descendants(pid: int) -> list[int]:
    """Return the processes below another, zombies included.

    They are found by the parent that each process names: /proc/PID/task/*/children comes and goes with threads.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(entry.name)):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the name."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    """Return a file of /proc/PID, or nothing if the process has ended or is hidden."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
