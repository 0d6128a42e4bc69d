"""Reading of files in bounded memory: JSON lines, and the objects in the arrays of one large document; gzip or not."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from agentflow.rl.traces.errors import TracesError
from agentflow.rl.traces.ledger import Ledger, Reason

LONGEST = 64 << 20
"""Most bytes of a line, and of an object in a document."""

CHUNK = 1 << 20

FIRST = 20
"""Number of lines by which a format is recognised."""

_SPANS, _BETWEEN = re.compile(r'"spans"\s*:\s*\['), re.compile(r"[\s,]*")

CUT_OFF = (EOFError, zlib.error, gzip.BadGzipFile)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if it begins as gzip does. Raises TracesError."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[misc]
    except OSError as error:
        raise TracesError(
            f"{path} cannot be read ({error.strerror or 'it is no gzip file'})", code="unreadable"
        ) from error


def rows(path: Path, ledger: Ledger, *, most: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines with their places; other lines are dropped. Raises TracesError.

    At most so many lines are read.
    """
    with opened(path) as file:
        for place, line in islice(_lines(path, file, ledger), most):
            ledger.read["lines"] += 1
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                yield place, found
            else:
                ledger.drop(Reason.MALFORMED, place)


def _lines(path: Path, file: IO[bytes], ledger: Ledger) -> Iterator[tuple[str, bytes]]:
    """Yield the lines that are not blank."""
    number = 0
    while True:
        number, place = number + 1, f"{path.name}, line {number + 1}"
        try:
            line = file.readline(LONGEST)
            rest = line
            while len(rest) == LONGEST and not rest.endswith(b"\n"):
                rest = file.readline(LONGEST)
        except CUT_OFF:
            ledger.drop(Reason.ENDS_EARLY, place)
            return
        if not line:
            return
        if rest is not line:
            ledger.drop(Reason.TOO_LONG, place)
        elif line.strip():
            yield place, line.removeprefix(b"\xef\xbb\xbf")


def first_rows(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects among the first lines of a file. Raises TracesError."""
    return [row for _, row in rows(path, Ledger(), most=FIRST)]


def document_spans(path: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """Yield the elements of every array `"spans": [...]` in a JSON document, wherever it is. Raises TracesError.

    In a string the name's quotes would be escaped, so that no text passes for an array.
    """
    with opened(path) as file:
        yield from _Document(path, file, ledger).spans()


class _Document:
    """A window on a document."""

    def __init__(self, path: Path, file: IO[bytes], ledger: Ledger) -> None:
        self._path, self._file, self._ledger = path, file, ledger
        self._text, self._at, self._torn = "", 0, b""
        self._line, self._counted = 1, 0
        self._decoder = json.JSONDecoder()

    @property
    def _place(self) -> str:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return f"{self._path.name}, line {self._line}"

    def spans(self) -> Iterator[tuple[str, Any]]:
        while True:
            if array := _SPANS.search(self._text, self._at):
                self._at = array.end()
                yield from self._array()
            else:
                self._at = max(self._at, len(self._text) - 1_000)
                if not self._more():
                    return

    def _array(self) -> Iterator[tuple[str, Any]]:
        while True:
            found = _BETWEEN.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at == len(self._text):
                if not self._more():
                    self._ledger.drop(Reason.ENDS_EARLY, self._place)
                    return
            elif self._text[self._at] == "]":
                return
            else:
                place, element = self._place, self._element()
                if element is None:
                    return
                yield place, element[0]

    def _element(self) -> tuple[Any] | None:
        """Return the element at the window's position; None if it does not end."""
        wanted = CHUNK
        while True:
            try:
                found, self._at = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                begun = len(self._text) - self._at
                if begun > LONGEST:
                    self._ledger.drop(Reason.TOO_LONG, self._place)
                    self._at += 1
                    return None
                if not self._more(wanted):
                    self._ledger.drop(Reason.ENDS_EARLY, self._place)
                    return None
                wanted = begun
            else:
                return (found,)

    def _more(self, size: int = CHUNK) -> bool:
        """Extend the window, and drop what lies before its position."""
        self._line += self._text.count("\n", self._counted, self._at)
        try:
            read = self._torn + self._file.read(max(size, CHUNK))
        except CUT_OFF:
            read = b""
        # A character of several bytes may be cut at the end of what was read.
        end = next((n for n in range(1, min(4, len(read) + 1)) if read[-n] >= 0xC0), 0)
        whole, self._torn = (read[:-end], read[-end:]) if end else (read, b"")
        self._text, self._at = self._text[self._at :] + whole.decode("utf-8", "replace"), 0
        self._counted = 0
        return bool(whole)
