"""Tables of cases in files, one case a line, or one program a block; mostly in the folder `cases` beside their test."""

import json
from pathlib import Path
from typing import Any

import pytest


def table(test: str, name: str) -> list[Any]:
    """The JSON values of a file beside a test, one a line; lines that begin with # are headings or comments."""
    lines = (Path(test).parent / "cases" / name).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line and not line.startswith("#")]


def sections(test: str, name: str) -> dict[str, list[Any]]:
    """The tables of a file by their headings."""
    parts = (Path(test).parent / "cases" / name).read_text(encoding="utf-8").split("\n# ")
    found = (part.removeprefix("# ").partition("\n") for part in parts)
    return {title: [json.loads(line) for line in body.split("\n") if line] for title, _, body in found}


def cases(path: Path, *fields: str) -> list[Any]:
    """The values of these fields, null where a line has none, under the name in `case`, if there is one."""
    rows = map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])
    return [pytest.param(*(row.get(field) for field in fields), id=row.get("case")) for row in rows]


def programs(path: Path) -> dict[str, str]:
    """The programs of a file by their names; each follows a line `## NAME` and ends at an empty line."""
    blocks = path.read_text(encoding="utf-8").removeprefix("## ").rstrip("\n").split("\n\n## ")
    return {name: code for name, _, code in (block.partition("\n") for block in blocks)}
