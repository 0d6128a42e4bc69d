"""Reading of rows from a file: JSON lines, a JSON list, CSV or parquet, by its suffix."""

import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.tools.json_codec import without_lone_surrogates
from agentflow.version import pip_install

_VALUE = re.compile(r"[^\s,]")
"""The start of an element of a JSON list, or the list's end."""


def read_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of `path`, each with its place ("line 3", of a parquet file "row 2"), as values by column.

    Raises BenchmarkError.
    """
    try:
        rows = list(_parquet(path) if path.suffix == ".parquet" else _text(path, _content(path)))
    except ImportError as error:
        raise BenchmarkError(
            f"{path} needs {error.name}; install it with: {pip_install('data')}",
            code="missing_package",
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise BenchmarkError(
            f"{path} cannot be read ({why}); it has to be JSON lines, JSON, CSV or parquet", code="unreadable"
        ) from error
    if not rows:
        raise BenchmarkError(f"{path} has no rows", code="no_rows")
    if wrong := [place for place, row in rows if not isinstance(row, dict)]:
        raise BenchmarkError(f"{path}, {wrong[0]}, is no JSON object", code="bad_row")
    return rows


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8") from error


def _text(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".csv":
        return _csv(text)
    text = without_lone_surrogates(text)
    return _list(text) if text.lstrip().startswith("[") else _lines(text)


def _csv(text: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield the rows after the heading; cells that a row lacks are None."""
    reader, end = csv.reader(io.StringIO(text, newline=""), strict=True), 0
    try:
        columns = next(filter(None, reader), [])
        end = reader.line_num
        for cells in reader:
            line, end = end + 1, reader.line_num
            if len(cells) > len(columns):
                raise ValueError(f"line {line} has {len(cells)} cells, and the columns are {', '.join(columns)}")
            if cells:
                yield f"line {line}", dict(zip_longest(columns, cells))
    except csv.Error as error:
        raise ValueError(f"line {end + 1}: {error}") from error


def _list(text: str) -> Iterator[tuple[str, Any]]:
    json.loads(text)  # so that text between two elements is an error
    decoder, end, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while text[start := next(_VALUE.finditer(text, end)).start()] != "]":
        line, counted = line + text.count("\n", counted, start), start
        row, end = decoder.raw_decode(text, start)
        yield f"line {line}", row


def _lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line.strip():
                yield f"line {number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    from pyarrow import ArrowException, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise ValueError(error) from error
    return ((f"row {number}", row) for number, row in enumerate(rows, start=1))
