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
    wanted = json.dumps(text)[1:-1].lower().encode()
    found, files = [False] * len(places), dict[Path, list[int]]()
    for number, place in enumerate(places):
        files.setdefault(place.path, []).append(number)
    for path, numbers in files.items():
        with suppress(OSError), open_file(path) as file:
            for number in numbers:
                content = os.pread(file.fileno(), places[number].length, places[number].offset)
                found[number] = _occurs(wanted, content.lower())
    return found


def _occurs(wanted: bytes, content: bytes) -> bool:
    at = content.find(wanted)
    while at >= 0:
        quote = content.rfind(b'"', 0, at + 1)
        name = _FIELD.match(content, quote) if quote >= 0 else None
        if name is None or name.end() < at + len(wanted):
            return True
        at = content.find(wanted, name.end())
    return False
