"""Lock of a run folder: two trainings in one folder would mix up checkpoints, rollouts and metrics."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentflow.rl.settings import SettingsError
from agentflow.tools.file_lock import lock

LOCK = "train.lock"
"""Lock file in a run folder. The file is never removed and names its last holder. Only the kernel's lock on it counts,
which is released however the process ends."""


@contextmanager
def run_lock(out: Path) -> Iterator[None]:
    """Lock the folder `out`, and create it if it does not exist. Raises SettingsError if another process holds it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot write to {out} ({error.strerror}); choose another out=", code="unwritable"
        ) from error
    with file:
        try:
            lock(file)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise SettingsError(
                f"{holder} is training in {out}; wait for its end, or choose another out=", code="locked"
            ) from error
        except OSError as error:
            raise SettingsError(
                f"cannot lock {out} ({error.strerror}); choose another out=", code="unwritable"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
