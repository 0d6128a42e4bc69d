"""Reading of rows from a file: JSON lines, a JSON list, CSV or parquet, by its suffix."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from agentflow.evals.benchmarks.errors import BenchmarkError


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of `path`, each a dictionary by column. Raises BenchmarkError."""
    try:
        rows = _parquet(path) if path.suffix == ".parquet" else _text(path, path.read_text(encoding="utf-8-sig"))
    except ImportError as error:
        raise BenchmarkError(
            f"{path} needs {error.name}; install it with: pip install 'agentflow-langgraph[data]'"
        ) from error
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise BenchmarkError(f"{path} cannot be read ({why}); it has to be JSON lines, JSON, CSV or parquet") from error
    if not rows:
        raise BenchmarkError(f"{path} has no rows")
    if not all(isinstance(row, dict) for row in rows):
        raise BenchmarkError(f"{path} has rows that are no JSON objects")
    return rows


def _text(path: Path, text: str) -> list[Any]:
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [_row(line, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _row(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from error


def _parquet(path: Path) -> list[Any]:
    from pyarrow import ArrowException, parquet

    try:
        return list(parquet.read_table(path).to_pylist())
    except ArrowException as error:
        raise ValueError(error) from error
