"""What runs in the fresh interpreter of the tier without isolation: limits itself, then is the program.

The limits are set here and not in a `preexec_fn`, so that the host, which may be large and threaded, need not fork.
"""

import contextlib
import os
import resource
import sys
from typing import NoReturn

from agentflow.tools.sandbox import program

NEW_TASKS = 64
"""Processes and threads that the program may start, where the system enforces it: not for root."""


def limit_resources(cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Hard limits, which the program cannot raise again; where a system lacks one (macOS: memory), it goes without."""
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(OSError, ValueError), open("/proc/loadavg", encoding="ascii") as loadavg:
        # The limit counts all tasks of the user; the system's total ("running/total") is a bound for these.
        limits[resource.RLIMIT_NPROC] = int(loadavg.read().split()[3].split("/")[1]) + NEW_TASKS
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))


def main() -> NoReturn:
    """Arguments: seconds of CPU, bytes of memory, bytes per file; the program is in the current folder."""
    sys.path.pop(0)  # where the host found this package
    limit_resources(*map(int, sys.argv[1:4]))
    with open(program.NAME, encoding="utf-8") as file:
        source = file.read()
    os._exit(program.main(source))
