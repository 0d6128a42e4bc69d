"""Search in the texts of traces. Each file is opened once."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentflow.view.lines import Place, open_file

_FIELD = re.compile(rb'"\w+": ?')
"""A field's name in a line of JSON, which no search is for."""


def containing(places: Sequence[Place], text: str) -> list[bool]:
    """Return whether `text` occurs in the values of each line, in any case; in none of a file that cannot be read.

    Lines are ASCII, with text escaped as in JSON.
    """
    wanted = _pattern(text)
    found, files = [False] * len(places), dict[Path, list[int]]()
    for number, place in enumerate(places):
        files.setdefault(place.path, []).append(number)
    for path, numbers in files.items():
        with suppress(OSError), open_file(path) as file:
            for number in numbers:
                content = os.pread(file.fileno(), places[number].length, places[number].offset)
                found[number] = _occurs(wanted, content.lower())
    return found


def _pattern(text: str) -> re.Pattern[bytes]:
    """Return the pattern of `text` in lower-case JSON, where a letter beyond ASCII and its capital are two escapes."""
    cases = [{json.dumps(case)[1:-1].lower() for case in (one.lower(), one.upper())} for one in text]
    return re.compile("".join(f"(?:{'|'.join(map(re.escape, sorted(one)))})" for one in cases).encode())


def _occurs(wanted: re.Pattern[bytes], content: bytes) -> bool:
    found = wanted.search(content)
    while found:
        quote = content.rfind(b'"', 0, found.start() + 1)
        name = _FIELD.match(content, quote) if quote >= 0 else None
        if name is None or name.end() < found.end():
            return True
        found = wanted.search(content, name.end())
    return False
