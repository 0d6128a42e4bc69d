"""Exclusive lock of an open file, which the operating system releases however the process ends."""

import sys
from typing import IO, Any

if sys.platform == "win32":
    import errno
    import msvcrt

    def lock(file: IO[Any]) -> None:
        """Lock the file. Raises BlockingIOError if another process holds the lock, OSError if it cannot be locked."""
        place = file.tell()
        file.seek(0x7FFF_0000)  # a byte beyond the content, which others may then read
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLOCK):
                raise BlockingIOError(error.errno, "another process holds the lock") from error
            raise
        finally:
            file.seek(place)
else:
    import fcntl

    def lock(file: IO[Any]) -> None:
        """Lock the file. Raises BlockingIOError if another process holds the lock, OSError if it cannot be locked."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
