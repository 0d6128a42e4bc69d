"""Programs that run until they are let go, so that a test knows how many run at once."""

import contextlib
import os
import signal
from pathlib import Path

from tests.sandboxes import descendants
from tests.waiting import until

WAITS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
open('n', 'w').write('{n}')
signal.sigwait([signal.SIGUSR1])
print(open('n').read())
"""


def waiting() -> set[int]:
    """Programs that have come to the point where they wait: they block the second signal, and get the first.

    Linux does not show a signal as blocked while a program waits for it.
    """
    return {pid for pid in descendants(os.getpid()) if waits(pid)}


def waits(pid: int) -> bool:
    """Return whether a process blocks the second signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigBlk:"):
                return bool(int(line.split()[1], 16) >> signal.SIGUSR2 - 1 & 1)
    return False


def await_waiting(number: int) -> set[int]:
    """The programs that wait, once there are so many."""
    until(lambda: len(waiting()) >= number)
    return waiting()


def let_go(pids: set[int]) -> None:
    """Ends the waiting of programs."""
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
