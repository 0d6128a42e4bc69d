"""JSON that all parsers read alike: what is written is ASCII without lone surrogates, and errors are ValueErrors.

A lone surrogate is half a character, as JavaScript cuts emojis. Python's parser reads and writes it, but UTF-8 and
pydantic's parser do not have it.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(?P<lone>u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)


def without_lone_surrogates(text: str) -> str:
    """Return JSON text with the replacement character for each escape of half a character."""
    return _ESCAPE.sub(lambda match: r"\ufffd" if match["lone"] else match[0], text) if "\\u" in text else text


def to_json(data: Any) -> str:
    """Return JSON data as one line of ASCII."""
    return without_lone_surrogates(json.dumps(data))


def from_json(text: str | bytes, **options: Any) -> Any:
    """Return what `json.loads` returns. Raises ValueError, also for text that is nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def object_from_json(text: str | bytes, **options: Any) -> dict[str, Any] | None:
    """Return the object that is the whole text, None for any other text."""
    try:
        found = from_json(text, **options)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def with_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with every text in it changed, keys of objects included."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {with_texts(name, change): with_texts(value, change) for name, value in data.items()}
    return [with_texts(value, change) for value in data] if isinstance(data, list) else data


def model_from_json(kind: type[Model], text: bytes) -> Model:
    """Return the model of a line, also of one that an earlier version wrote. Raises ValidationError."""
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        if b"\\u" not in text:
            raise
        return kind.model_validate_json(without_lone_surrogates(text.decode("utf-8", "replace")))


def readable_lines(path: Path, kind: type[Model]) -> Iterator[Model]:
    """Yield the models of a file's lines, none if there is no file. Unreadable lines, as a kill leaves, are skipped."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValidationError):
            yield model_from_json(kind, line)


def read_regular(path: Path) -> bytes:
    """Return the content of a file. Raises OSError, also for a pipe or a device, which may have no end."""
    if path.is_fifo() or path.is_char_device():
        raise OSError(None, "it is a pipe or a device", str(path))
    return path.read_bytes()
