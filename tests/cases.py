"""Tables of cases in files beside their tests, one case a line."""

import json
from pathlib import Path
from typing import Any

import pytest


def cases(path: Path, *fields: str) -> list[Any]:
    """The values of these fields, null where a line has none, under the name in `case`, if there is one."""
    rows = map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])
    return [pytest.param(*(row.get(field) for field in fields), id=row.get("case")) for row in rows]
