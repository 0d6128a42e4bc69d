"""Tables of cases, which stand beside their tests: one JSON value a line, under headings that begin with #."""

import json
from pathlib import Path
from typing import Any


def table(test: str, name: str) -> list[Any]:
    lines = (Path(test).parent / "cases" / name).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line and not line.startswith("#")]


def sections(test: str, name: str) -> dict[str, list[Any]]:
    """The tables of a file by their headings."""
    parts = (Path(test).parent / "cases" / name).read_text(encoding="utf-8").split("\n# ")
    found = (part.removeprefix("# ").partition("\n") for part in parts)
    return {title: [json.loads(line) for line in body.split("\n") if line] for title, _, body in found}
