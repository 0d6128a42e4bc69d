"""Lines of a growing file. Only new and complete lines are read.

A writer appends; if killed, it leaves an incomplete last line; after a checkpoint it rewrites the file. So a file may
also shrink or be replaced. The end of the part that was read is compared with the file, which is read again from the
start if they differ.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path

BLOCK = 4 << 20
"""Most bytes per read, so that other sources are not blocked by a large file."""
LONGEST = 64 << 20
"""Most bytes of one line; longer ones are split."""
_MARK = 256
"""Number of bytes before the position by which a file is recognised."""


@dataclass(frozen=True)
class Place:
    """Location of a line."""

    path: Path
    offset: int
    length: int

    def read(self) -> bytes:
        """Read the line. Raises OSError."""
        with open_file(self.path) as file:
            return os.pread(file.fileno(), self.length, self.offset)


@dataclass
class News:
    """Result of a read."""

    again: bool = False
    """True if the file was replaced: lines read earlier are invalid."""
    lines: list[tuple[Place, bytes]] | None = None
    more: bool = False
    """True if more lines can be read at once."""

    def __bool__(self) -> bool:
        return self.again or bool(self.lines)


class Tail:
    """Reader of the lines of `path`, each once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = 0.0
        """Modification time of the file, in seconds since the epoch; 0 if there is none."""
        self._position = 0
        self._mark = b""
        self._seen: tuple[int, int] | None = None

    def look(self) -> News:
        """Return the lines since the last call. Never raises; an unreadable file has no lines."""
        try:
            with open_file(self.path) as file:
                stat = os.fstat(file.fileno())
                self.changed = stat.st_mtime
                if (seen := (stat.st_mtime_ns, stat.st_size)) == self._seen:
                    return News()
                return self._read(file.fileno(), seen)
        except OSError:
            again, self._position, self._mark, self._seen = self._position > 0, 0, b"", None
            return News(again=again)

    def _read(self, file: int, seen: tuple[int, int]) -> News:
        start = max(0, self._position - _MARK)
        again = os.pread(file, self._position - start, start) != self._mark
        if again:
            self._position = 0
        block, wanted = os.pread(file, BLOCK, self._position), BLOCK
        while b"\n" not in block and len(block) == wanted < LONGEST:
            wanted *= 2
            block = os.pread(file, wanted, self._position)
        end = len(block) if len(block) == LONGEST and b"\n" not in block else block.rfind(b"\n") + 1
        found = list(self._lines(block[:end]))
        more = len(block) == wanted and end > 0
        self._position += end
        start = max(0, self._position - _MARK)
        self._mark = os.pread(file, self._position - start, start)
        self._seen = None if more else seen
        return News(again, found, more)

    def _lines(self, block: bytes) -> Iterator[tuple[Place, bytes]]:
        offset = self._position
        for line in BytesIO(block):  # unlike splitlines, at line feeds only
            if line.strip():
                yield Place(self.path, offset, len(line)), line
            offset += len(line)


def open_file(path: Path) -> FileIO:
    """Open `path` for reading; a symbolic link, which may lead outside the folder, is refused. Raises OSError."""
    return open(
        path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    )


def read_file(path: Path, most: int) -> bytes:
    """Read up to `most` bytes as `open_file` does. Raises OSError."""
    with open_file(path) as file:
        return file.read(most)
