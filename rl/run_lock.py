"""One training at a time in a run's folder: two would mix up each other's checkpoints, rollouts and metrics."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentflow.rl.settings import SettingsError

LOCK = "train.lock"
"""The file in a run's folder that its training holds. It stays, with the name of the last holder; what counts is the
lock on it, which the kernel releases however the process ends."""


@contextmanager
def run_lock(out: Path) -> Iterator[None]:
    """Holds the folder `out`, which is made if need be. Raises SettingsError if another process holds it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write to {out} ({error.strerror}); choose another out=") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise SettingsError(f"{holder} is training in {out}; wait for its end, or choose another out=") from error
        except OSError as error:
            raise SettingsError(f"cannot lock {out} ({error.strerror}); choose another out=") from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
