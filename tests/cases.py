"""Tables of cases in files beside their tests, one case a line, or one program a block."""

import json
from pathlib import Path
from typing import Any

import pytest


def cases(path: Path, *fields: str) -> list[Any]:
    """The values of these fields, null where a line has none, under the name in `case`, if there is one."""
    rows = map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])
    return [pytest.param(*(row.get(field) for field in fields), id=row.get("case")) for row in rows]


def programs(path: Path) -> dict[str, str]:
    """The programs of a file by their names; each follows a line `## NAME` and ends at an empty line."""
    blocks = path.read_text(encoding="utf-8").removeprefix("## ").rstrip("\n").split("\n\n## ")
    return {name: code for name, _, code in (block.partition("\n") for block in blocks)}
