"""A program's folder where the kernel sets no quota: the fork server checks its size and removes it afterwards.

Counting and removal handle any mode and any depth, including paths longer than the system's limit.
"""

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress

from agentflow.tools.sandbox.limits import Limits

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64
"""Depth of nested folders that is checked. The server has few descriptors for them."""


_PREFIX = "agentflow-sandbox-"
_NEW_SECONDS = 60.0
"""Age in seconds up to which a folder without its lock is left alone."""


def claim() -> tuple[str, int]:
    """Return a new folder for a server's programs, and the descriptor that keeps it locked while this process lives.

    Removes the folders of hosts that were killed.
    """
    _remove_abandoned(tempfile.gettempdir())
    path = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(path, _FOLDER)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def _remove_abandoned(parent: str) -> None:
    with os.scandir(parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in found:
        with suppress(OSError):  # it is in use by another host, or another host removes it too
            status = entry.stat(follow_symlinks=False)
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _NEW_SECONDS:
                continue
            lock = os.open(entry.path, _FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(entry.path)
            finally:
                os.close(lock)


def create(parent: str, user: int | None) -> str:
    """Return the path of a new folder below `parent`, which only `user` can access."""
    folder = tempfile.mkdtemp(prefix="run-", dir=parent)
    if user is not None:
        os.chown(folder, user, user)
    return folder


def exceeds(folder: str, limits: Limits) -> bool:
    """Return whether the program wrote more files or bytes than allowed.

    A folder that cannot be read, or is nested too deeply, also counts as exceeding the limits.
    """
    taken, files = 0, -1  # the program itself is one file
    try:
        for status in _walk(os.open(folder, _FOLDER), _DEEPEST):
            taken += status.st_blocks * 512
            files += 1
            if files > limits.files or taken > limits.disk_bytes:
                return True
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _walk(top: int, deepest: int) -> Iterator[os.stat_result]:
    """Yield the status of every entry below the open folder `top`, and close `top` at the end.

    Entries that vanish meanwhile are skipped. The walk uses descriptors, so no path is too long. Raises OSError if a
    folder cannot be read or is nested too deeply.
    """
    try:
        with os.scandir(top) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield status
                    if stat.S_ISDIR(status.st_mode):
                        if not deepest:
                            raise OSError(errno.ELOOP, "too deep")
                        yield from _walk(os.open(entry.name, _FOLDER, dir_fd=top), deepest - 1)
    finally:
        os.close(top)


def hides(pid: int, folder: str, limits: Limits) -> bool:
    """Return whether a program holds more than its disk limit in deleted files that it has open or mapped.

    The size of a mapped file is not visible, so each one counts as the largest size allowed for a file.
    """
    try:
        taken = sum(_deleted(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            mapped = {line.split(maxsplit=5)[4] for line in maps if folder in line and "(deleted)" in line}
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False
    except PermissionError:
        return False  # another user's process: only where the kernel sets a quota, or the server is root
    return taken + len(mapped) * limits.file_bytes > limits.disk_bytes


def _deleted(descriptor: str) -> int:
    """Return the size in bytes of a deleted file that this descriptor keeps open, and 0 for any other file."""
    try:
        status = os.stat(descriptor)
    except OSError:
        return 0
    return status.st_blocks * 512 if stat.S_ISREG(status.st_mode) and not status.st_nlink else 0


def remove(top: str) -> None:
    """Remove a folder that is no longer in use.

    Nested folders are made accessible and moved next to it before they are emptied, so that no path becomes too long
    and no name collides.
    """
    beside = tempfile.mkdtemp(prefix="removed-", dir=os.path.dirname(top))
    pending, moved = [top], 0
    while pending:
        folder = pending.pop()
        os.chmod(folder, 0o700)
        for entry in list(os.scandir(folder)):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            moved += 1
            target = os.path.join(beside, str(moved))
            os.chmod(entry.path, 0o700)
            os.rename(entry.path, target)
            pending.append(target)
        os.rmdir(folder)
    os.rmdir(beside)
