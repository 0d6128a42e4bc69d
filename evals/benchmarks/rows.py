"""Reading of rows from a file: JSON lines, a JSON list, CSV or parquet, by its suffix."""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.tools.json_codec import without_lone_surrogates
from agentflow.version import pip_install

OPTION = re.compile(r"(?i:option|choice)(?!s)[ _]?(?:[A-Za-z]|\d)|[A-Z]")
"""The name of a column that holds one option."""
_TEXTS = re.compile(r"""\[\s*["'].*["']\s*\]""", re.DOTALL)
"""A list of texts; one of numbers can be an interval."""


def read_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of `path`, each with its place ("line 3"; of parquet and a list, "row 2"), as values by column.

    Raises BenchmarkError.
    """
    try:
        rows = list(_parquet(path) if path.suffix.lower() == ".parquet" else _text(path, _content(path)))
    except ImportError as error:
        needs = f"{path} needs {error.name}; install it with: {pip_install('data')}"
        raise BenchmarkError(needs, code="missing_package") from error
    except (OSError, ValueError, RecursionError) as error:
        why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        refusal = f"{path} cannot be read ({why}); it has to be JSON lines, JSON, CSV or parquet"
        raise BenchmarkError(refusal, code="unreadable") from error
    if not rows:
        raise BenchmarkError(f"{path} has no rows", code="no_rows")
    if wrong := [place for place, row in rows if not isinstance(row, dict)]:
        raise BenchmarkError(f"{path}, {wrong[0]}, is no JSON object", code="bad_row")
    return [(place, _gathered(row)) for place, row in rows]


def _gathered(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row, with its options in one object if there is a column for each."""
    names = [] if "options" in row else sorted(filter(OPTION.fullmatch, row))
    if not "".join(name[-1].upper() for name in names).startswith(("AB", "12", "01")):
        return row
    return row | {"options": {name[-1] if name[-1].isalpha() else name: row[name] for name in names}}


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8") from error


def _text(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    if path.suffix.lower() == ".csv":
        return _csv(text)
    text = without_lone_surrogates(text)
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        return _lines(text)
    if isinstance(found, dict):
        one_line = "\n" not in text.strip()
        lists = [rows for rows in found.values() if rows and isinstance(rows, list) and isinstance(rows[0], dict)]
        if len(lists) == 1 and "question" not in found and (len(found) == 1 or not one_line):
            found = lists[0]
        elif not one_line:
            raise ValueError("it is one JSON object, not a list of rows")
    if not isinstance(found, list):
        return _lines(text)
    return ((f"row {number}", row) for number, row in enumerate(found, start=1))


def _csv(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows after the heading, without empty ones; cells that a row lacks are None."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    heading, end = text.lstrip().partition("\n")[0], 0
    delimiter = next((one for one in ",;\t" if one in heading), ",")
    spaced = f"{delimiter} " in heading
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter, skipinitialspace=spaced)
    try:
        first = next((cells for cells in reader if cells and cells[0].lower() != "sep="), [])  # which Excel reads
        columns, end = [name.strip() for name in first], reader.line_num
        if twice := [name for name in columns if name and columns.count(name) > 1]:
            raise ValueError(f"{len(twice)} columns are called {twice[0]}")
        for cells in reader:
            line, end = end + 1, reader.line_num
            if len(cells) > len(columns) and any(cells):
                raise ValueError(f"line {line} has {len(cells)} cells, and the columns are {', '.join(columns)}")
            if any(map(str.strip, cells)):
                texts = zip_longest(columns, cells)
                row = {name: cell if not cell or OPTION.fullmatch(name) else _value(cell) for name, cell in texts}
                yield f"line {line}", row
    except csv.Error as error:
        raise ValueError(f"line {end + 1}: {error}") from error


def _value(cell: str) -> Any:
    """Return the value of a CSV cell: true, false, or a list of texts as JSON or Python writes it; else its text."""
    if not _TEXTS.fullmatch(cell):
        return {"true": True, "false": False}.get(cell.lower(), cell)
    with suppress(ValueError):
        return json.loads(cell)
    with suppress(ValueError, SyntaxError):
        if "".join(str(found := ast.literal_eval(cell)).split()) == "".join(cell.split()):
            return found
    return [[cell]]  # such as ['a' 'b'] by numpy, which would be ['ab']; readers refuse a list in a list


def _lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line.strip():
                yield f"line {number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    from pyarrow import ArrowException, float32, parquet

    try:
        table = parquet.read_table(path)
        for place, name in enumerate(table.column_names):
            if table.schema.types[place] == float32():  # 0.1, not 0.10000000149011612
                table = table.set_column(place, name, table[place].cast("string").cast("float64"))
        return ((f"row {number}", row) for number, row in enumerate(table.to_pylist(), start=1))
    except ArrowException as error:
        raise ValueError(error) from error
