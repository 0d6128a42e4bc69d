"""Files of `--file`: text becomes part of the question, images and PDF go to the models beside it."""

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentflow.cli.group import MISUSED, fail

MAX_TEXT, MAX_TABLE, MAX_BYTES = 100_000, 1_000_000, 20_000_000
"""Characters of the largest text file, and of one that programs read, and bytes of the largest other file."""


def read_files(paths: Sequence[Path], programs: bool) -> list[dict[str, Any]]:
    """Return the files as LangChain's content blocks; ends the command on one that nothing here can read.

    `programs`: whether a program can read the files.
    """
    from agentflow.nodes.attachments import DATA_FILES

    blocks: list[dict[str, Any]] = []
    for path in paths:
        kind = mimetypes.guess_type(path.name)[0] or ""
        data = _data(path)
        if kind.startswith("image/") or kind == "application/pdf":
            block = {"type": "image" if kind.startswith("image/") else "file", "mime_type": kind, "filename": path.name}
            blocks.append({**block, "base64": base64.b64encode(data).decode()})
        else:
            most = MAX_TABLE if programs and path.name.lower().endswith(DATA_FILES) else MAX_TEXT
            block = {"type": "text-plain", "mime_type": "text/plain", "title": path.name}
            blocks.append({**block, "text": _text(path, data, most)})
    return blocks


def _data(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        fail(f"--file: cannot read {path} ({error.strerror})", MISUSED)
    if len(data) > MAX_BYTES:
        fail(f"--file: {path} is larger than {MAX_BYTES // 1_000_000} MB; attach a part of it", MISUSED)
    return data


def _text(path: Path, data: bytes, most: int) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        fail(f"--file: {path} is no text, image or PDF; convert it", MISUSED)
    if len(text) > most:
        fail(f"--file: {path} has more than {most:,} characters; attach a part of it", MISUSED)
    return text
