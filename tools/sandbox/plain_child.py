"""The entry point in the fresh interpreter of the tier without isolation: it sets limits and runs the program.

The limits are set here instead of in a `preexec_fn`, so that the host, which may be large and threaded, need not fork.
"""

import contextlib
import os
import resource
import sys
from typing import NoReturn

from agentflow.tools.sandbox import program

NEW_TASKS = 64
"""Processes and threads that the program may start. The system does not enforce it for root."""


def limit_resources(cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Set hard limits, which the program cannot raise again; that of CPU time is a second above the soft one.

    Limits that the system lacks are skipped (macOS: memory).
    """
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(OSError, ValueError), open("/proc/loadavg", encoding="ascii") as loadavg:
        # The limit counts all tasks of the user, of which the system's total ("running/total") is an upper bound.
        limits[resource.RLIMIT_NPROC] = int(loadavg.read().split()[3].split("/")[1]) + NEW_TASKS
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = value + 1 if kind == resource.RLIMIT_CPU else value  # SIGXCPU first, which identifies the cause
        value, most = (one if hard == resource.RLIM_INFINITY else min(one, hard) for one in (value, most))
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, most))


def main() -> NoReturn:
    """Run the program in the current folder. Arguments: seconds of CPU time, bytes of memory, bytes per file."""
    sys.path.pop(0)  # the path to this package
    limit_resources(*map(int, sys.argv[1:4]))
    with open(program.NAME, encoding="utf-8") as file:
        source = file.read()
    os._exit(program.main(source))
