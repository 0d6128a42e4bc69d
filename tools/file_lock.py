"""Exclusive lock of an open file, which the operating system releases however the process ends."""

import fcntl
from typing import IO, Any


def lock(file: IO[Any]) -> None:
    """Lock the file. Raises BlockingIOError if another process holds the lock, OSError if it cannot be locked."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
