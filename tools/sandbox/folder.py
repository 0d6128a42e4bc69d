"""A program's folder where the kernel gives it no quota: the fork server looks, and removes what the program left.

Whatever a program makes of its folder has to be counted and removed: any depth (longer than a path may be), any mode.
"""

import os
import stat
import tempfile
from collections.abc import Iterator

from agentflow.tools.sandbox.limits import Limits


def create(parent: str, user: int | None) -> str:
    """Path of a new folder below `parent`, for `user` alone."""
    folder = tempfile.mkdtemp(prefix="run-", dir=parent)
    if user is not None:
        os.chown(folder, user, user)
    return folder


def exceeds(folder: str, limits: Limits) -> bool:
    """Whether the program wrote more files, or more bytes, than it may."""
    taken = 0
    for files, status in enumerate(_walk(folder)):
        taken += status.st_blocks * 512
        if files > limits.files or taken > limits.disk_bytes:  # one file is the program itself
            return True
    return False


def _walk(top: str) -> Iterator[os.stat_result]:
    """The status of everything below `top`; what vanishes or cannot be read meanwhile is passed over."""
    pending = [top]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                pending.append(entry.path)
            yield status


def remove(top: str) -> None:
    """Removes a folder that nobody uses any more: folders in it are moved up to `top` before they are emptied, so that
    no path gets long, and are made accessible first."""
    pending = [top]
    moved = 0
    while pending:
        folder = pending.pop()
        for entry in list(os.scandir(folder)):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            moved += 1
            target = os.path.join(top, f"\n{moved}")
            os.chmod(entry.path, 0o700)
            os.rename(entry.path, target)
            pending.append(target)
        if folder != top:
            os.rmdir(folder)
    os.rmdir(top)
