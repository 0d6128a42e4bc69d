"""Files of `--file`: text becomes part of the question, images and PDF go to the models beside it."""

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentflow.cli.group import MISUSED, fail

MAX_TEXT, MAX_BYTES = 100_000, 20_000_000
"""Largest text file in characters, and largest other file in bytes."""


def read_files(paths: Sequence[Path]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of the text files, and the others as LangChain's content blocks; ends the command on others."""
    texts: list[str] = []
    blocks: list[dict[str, Any]] = []
    for path in paths:
        kind = mimetypes.guess_type(path.name)[0] or ""
        data = _data(path)
        if kind.startswith("image/") or kind == "application/pdf":
            block = {"type": "image" if kind.startswith("image/") else "file", "mime_type": kind, "filename": path.name}
            blocks.append({**block, "base64": base64.b64encode(data).decode()})
        else:
            texts.append(f"{path.name}:\n{_text(path, data)}")
    return "\n\n".join(texts), blocks


def _data(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        fail(f"--file: cannot read {path} ({error.strerror})", MISUSED)
    if len(data) > MAX_BYTES:
        fail(f"--file: {path} is larger than {MAX_BYTES // 1_000_000} MB; attach a part of it", MISUSED)
    return data


def _text(path: Path, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        fail(f"--file: {path} is no text, image or PDF; convert it", MISUSED)
    if len(text) > MAX_TEXT:
        fail(f"--file: {path} has more than {MAX_TEXT:,} characters; attach a part of it", MISUSED)
    return text.strip()
