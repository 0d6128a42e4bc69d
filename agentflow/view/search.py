"""Search in the texts of traces. A file is read in blocks of lines, since opening it for each line takes longer."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentflow.view.lines import BLOCK, Place, open_file

_FIELD = re.compile(rb'"\w+": ?')
"""A field's name in a line of JSON, which no search is for."""


def containing(places: Sequence[Place], text: str) -> list[bool]:
    """Return whether `text` occurs in the values of each line, in any case.

    Lines are ASCII, with text escaped as in JSON.
    """
    wanted = json.dumps(text)[1:-1].lower().encode()
    found = [False] * len(places)
    for numbers in _blocks(places):
        start, content = places[numbers[0]].offset, _read(places[numbers[0]], places[numbers[-1]])
        for number in numbers:
            begin = places[number].offset - start
            found[number] = _occurs(wanted, content, begin, begin + places[number].length)
    return found


def _occurs(wanted: bytes, content: bytes, begin: int, end: int) -> bool:
    at = content.find(wanted, begin, end)
    while at >= 0:
        quote = content.rfind(b'"', begin, at + 1)
        name = _FIELD.match(content, quote, end) if quote >= 0 else None
        if name is None or name.end() < at + len(wanted):
            return True
        at = content.find(wanted, name.end(), end)
    return False


def _blocks(places: Sequence[Place]) -> Iterator[list[int]]:
    """Yield the numbers of lines that stand within `BLOCK` bytes of a file, in order; or of one line that is longer."""
    files: dict[Path, list[int]] = {}
    for number, place in enumerate(places):
        files.setdefault(place.path, []).append(number)
    for numbers in files.values():
        block: list[int] = []
        for number in sorted(numbers, key=lambda number: places[number].offset):
            place = places[number]
            if block and place.offset + place.length - places[block[0]].offset > BLOCK:
                yield block
                block = []
            block.append(number)
        yield block


def _read(first: Place, last: Place) -> bytes:
    """Return the bytes from the first line to the last in lower case; none if the file cannot be read."""
    try:
        with open_file(first.path) as file:
            return os.pread(file.fileno(), last.offset + last.length - first.offset, first.offset).lower()
    except OSError:
        return b""
