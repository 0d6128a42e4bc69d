"""A program's folder where the kernel gives it no quota: the fork server looks, and removes what the program left.

Whatever a program makes of its folder has to be counted and removed: any depth (longer than a path may be), any mode.
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
"""Folders within folders; the server has few descriptors for them."""


_PREFIX = "agentflow-sandbox-"
_NEW_SECONDS = 60.0
"""For so long a folder may be without its lock."""


def claim() -> tuple[str, int]:
    """A new folder for a server's programs, and the descriptor that keeps it locked while this process lives.

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
        with suppress(OSError):  # another host's, or another one removes it too
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
    """Path of a new folder below `parent`, for `user` alone."""
    folder = tempfile.mkdtemp(prefix="run-", dir=parent)
    if user is not None:
        os.chown(folder, user, user)
    return folder


def exceeds(folder: str, limits: Limits) -> bool:
    """Whether the program wrote more files or bytes than it may. What cannot be read, or is too deep, counts so."""
    taken, files = 0, -1  # one file is the program itself
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
    """The status of everything below the open folder `top`, which is closed in the end. What vanishes is passed over.

    By descriptors, so that no name is too long. Raises OSError for a folder that cannot be read, or is too deep.
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
    """Whether a program holds more than it may in files that it has deleted: open ones, and those that it has mapped.

    How much of a mapped one there is cannot be seen, so that each counts for as much as a file may have.
    """
    try:
        taken = sum(_deleted(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            mapped = {line.split(maxsplit=5)[4] for line in maps if folder in line and "(deleted)" in line}
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False
    except PermissionError:
        return False  # of another user, which is so only where the kernel gives folders a quota, or the server is root
    return taken + len(mapped) * limits.file_bytes > limits.disk_bytes


def _deleted(descriptor: str) -> int:
    """Bytes of a file that only this descriptor still leads to; 0 for all others."""
    try:
        status = os.stat(descriptor)
    except OSError:
        return 0
    return status.st_blocks * 512 if stat.S_ISREG(status.st_mode) and not status.st_nlink else 0


def remove(top: str) -> None:
    """Removes a folder that nobody uses any more.

    Folders in it are made accessible and moved beside it before they are emptied, so that no path gets long and no name
    is taken.
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
