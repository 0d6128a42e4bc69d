"""A file of lines that grows while it is read: only what is new is read, and only whole lines.

Writers append, tear their last line when they are killed, and start over after a checkpoint, so that a file may also
shrink or be another one of the same name. What was read last is compared with what stands there now; if that differs,
reading begins again.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4 << 20
"""Most bytes of one look, so that others get a word in between while a large file is read."""
LONGEST = 64 << 20
"""Bytes without a line break that are still waited for as one line."""
_MARK = 256
"""Bytes by which a file is known again."""


@dataclass(frozen=True)
class Place:
    """Where a line stands."""

    path: Path
    offset: int
    length: int

    def read(self) -> bytes:
        """The line. Raises OSError."""
        with open_file(self.path) as file:
            return os.pread(file.fileno(), self.length, self.offset)


@dataclass
class News:
    """What a look has found."""

    again: bool = False
    """The file is another one than before: whatever was read from it no longer counts."""
    lines: list[tuple[Place, bytes]] | None = None
    more: bool = False
    """There is more to be read at once."""

    def __bool__(self) -> bool:
        return self.again or bool(self.lines)


class Tail:
    """The lines of `path`, each once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = 0.0
        """When the file was written last, in seconds since the epoch; 0 if it is not there."""
        self._position = 0
        self._mark = b""
        self._seen: tuple[int, int] | None = None

    def look(self) -> News:
        """What has come since the last look. Nothing is raised: a file that cannot be read has no lines."""
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
        for line in block.splitlines(keepends=True) if b"\r" not in block else _split(block):
            if line.strip():
                yield Place(self.path, offset, len(line)), line
            offset += len(line)


def _split(block: bytes) -> Iterator[bytes]:
    """At line feeds alone, which `splitlines` does not do."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start) + 1 or len(block)
        yield block[start:end]
        start = end


class _Opened:
    """A file descriptor that closes itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def open_file(path: Path) -> _Opened:
    """`path` for reading, unless it is a link: what is shown is what lies where one looks. Raises OSError."""
    return _Opened(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK))


def read_file(path: Path, most: int) -> bytes:
    """What `open_file` opens, up to `most` bytes. Raises OSError."""
    with open_file(path) as file, open(file.fileno(), "rb", closefd=False) as content:
        return content.read(most)
