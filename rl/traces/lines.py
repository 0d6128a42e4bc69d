"""The JSON objects of a file: one a line, or one document; gzip or not."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentflow.rl.traces.episode import Dropped, DropReason, TracesError
from agentflow.tools.json_codec import object_from_json


def objects(path: Path, dropped: Dropped) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file with their places; other lines are dropped. Raises TracesError."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", "") or "its gzip data is broken or cut off"
        raise TracesError(f"{path} cannot be read ({why})", code="unreadable") from error
    if (document := object_from_json(content)) is not None:
        yield path.name, document
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        place = f"{path.name}, line {number}"
        if (found := object_from_json(line)) is not None:
            yield place, found
        elif line.strip():
            dropped[DropReason.MALFORMED].append(place)


def listed(holder: Any, name: str) -> list[Any]:
    """Return the objects in a field that holds a list; [] if it does not."""
    found = holder.get(name) if isinstance(holder, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
