"""The entry point in the fresh interpreter of the tier without isolation: it sets limits and runs the program.

The limits are set here instead of in a `preexec_fn`, so that the host, which may be large and threaded, need not fork.
"""

import contextlib
import os
import resource
import sys
from typing import NoReturn

from agentflow.tools.sandbox import program
from agentflow.tools.sandbox.confine import limit, tasks

NEW_TASKS = 64
"""Processes and threads that the program may start. The system does not enforce it for root."""


def limit_resources(cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Set hard limits, which the program cannot raise again. Those that a system lacks are skipped."""
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)  # SIGXCPU first, which identifies the cause
    for kind, value in limits.items():
        with contextlib.suppress(OSError, ValueError):
            limit(kind, value)
    with contextlib.suppress(OSError, ValueError):
        limit(resource.RLIMIT_NPROC, tasks() + NEW_TASKS)


def main() -> NoReturn:
    """Run the program in the current folder. Arguments: seconds of CPU time, bytes of memory, bytes per file."""
    sys.path.pop(0)  # the path to this package
    limit_resources(*map(int, sys.argv[1:4]))
    with open(program.NAME, encoding="utf-8") as file:
        source = file.read()
    os._exit(program.main({program.NAME: source}))
