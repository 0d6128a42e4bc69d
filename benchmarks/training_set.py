"""The paper's training set: open-domain questions (NQ) and mathematics (DeepMath), mixed into one parquet file.

python -m benchmarks.training_set --out data

Both come from the Hugging Face hub at a fixed revision. The revisions and checksums of all files are written beside the
result, as `sources.json`; a build from that file yields the same bytes or an error. Downloads use the hub's own client:
they are cached, and an interrupted download resumes.

    question   the question
    result     the accepted answers, joined by "; "
    source     nq or mathhard
    id         nq-0, mathhard-0, ...
    chain      ""; with extra_info {ground_truth, idx}, as the reference implementation's readers expect
"""

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow
import typer
from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from pyarrow import parquet
from pyarrow.json import read_json

from agentflow.evals.benchmarks.errors import BenchmarkError
from agentflow.evals.hub import TROUBLE, Pin, download, explain, find
from agentflow.tools.coded_error import CodedError

SHUFFLE_SEED = 42
SOURCES = "sources.json"


class TrainingSetError(CodedError, RuntimeError):
    """The training set cannot be built; `str()` is one line with the reason and the remedy."""


@dataclass(frozen=True)
class MixtureSource:
    """A data set of the mixture."""

    name: str
    repository: str
    files: str
    """Pattern of the files in the repository."""
    question: str
    """Name of the question column."""
    answer: str
    """Name of the answer column, which holds a text or a list of accepted answers."""
    rows: int
    """Number of its rows in the paper's set."""


NQ = MixtureSource("nq", "RUC-NLPIR/FlashRAG_datasets", "nq/train.jsonl", "question", "golden_answers", 79_168)
DEEPMATH = MixtureSource(
    "mathhard", "zwhe99/DeepMath-103K", "data/train-*.parquet", "question", "final_answer", 103_022
)


def build(
    out: Path,
    on_step: Callable[[str], None],
    sources: Sequence[MixtureSource] = (NQ, DEEPMATH),
    hub: HfApi | None = None,
) -> int:
    """Write `out`/train.parquet and `out`/sources.json; returns the number of rows.

    `on_step` is called with a line on each step. Raises TrainingSetError if the hub cannot be reached, a file has
    changed, or a file cannot be written.
    """
    hub = hub or HfApi()
    try:
        out.mkdir(parents=True, exist_ok=True)
        pinned = _read_pins(out / SOURCES)
        pins: dict[str, Pin] = {}
        rows: list[dict[str, Any]] = []
        for source in sources:
            on_step(f"{source.name}: {source.repository}")
            pin = pinned.get(source.name) or find(hub, source.repository, source.files)
            found = [row for path in download(hub, pin) for row in _read(source, path)]
            if len(found) != source.rows:
                raise TrainingSetError(
                    f"{source.repository} has {len(found):,} questions at revision {pin.revision}, and the paper's "
                    f"set {source.rows:,}; name an earlier revision in {out / SOURCES}",
                    code="other_size",
                )
            rows += [_row(source, number, row) for number, row in enumerate(found)]
            pins[source.name] = pin
        on_step(f"mixing {len(rows):,} questions")
        random.Random(SHUFFLE_SEED).shuffle(rows)
        _write(out / "train.parquet", rows)
        recorded = {name: pin.model_dump() for name, pin in pins.items()}
        (out / SOURCES).write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    except BenchmarkError as error:
        raise TrainingSetError(str(error), code=error.code) from error
    except HFValidationError as error:
        raise TrainingSetError(f"{out / SOURCES} names no repository or revision ({error})", code="bad_pins") from error
    except TROUBLE as error:
        raise TrainingSetError(
            explain(error, "the training set is downloaded once, about 2 GB"), code="download_failed"
        ) from error
    return len(rows)


def _read_pins(path: Path) -> dict[str, Pin]:
    if not path.exists():
        return {}
    try:
        return {name: Pin.model_validate(pin) for name, pin in json.loads(path.read_bytes()).items()}
    except (ValueError, AttributeError) as error:
        raise TrainingSetError(
            f"{path} cannot be read; remove it to take the newest revisions", code="bad_pins"
        ) from error


def _read(source: MixtureSource, path: Path) -> list[dict[str, Any]]:
    """Read the question and answer columns of a file; the other columns hold most of the bytes (worked solutions)."""
    columns = [source.question, source.answer]
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path, columns=columns)
        else:
            table = read_json(path).select(columns)
    except (pyarrow.ArrowException, KeyError) as error:
        raise TrainingSetError(f"{path} has not the columns {' and '.join(columns)}", code="no_columns") from error
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _row(source: MixtureSource, number: int, row: dict[str, Any]) -> dict[str, Any]:
    answer = row[source.answer]
    result = "; ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
    return {
        "id": f"{source.name}-{number}",
        "question": row[source.question],
        "chain": "",
        "result": result,
        "source": source.name,
        "extra_info": {"ground_truth": result, "idx": number},
    }


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a parquet file atomically."""
    beside = path.with_suffix(".tmp")
    parquet.write_table(pyarrow.Table.from_pylist(rows), beside)
    os.replace(beside, path)


def main(out: Annotated[Path, typer.Option(help="Folder of train.parquet and sources.json.")] = Path("data")) -> None:
    """Build the paper's training set, NQ and DeepMath, from the Hugging Face hub: 182,190 questions."""
    try:
        rows = build(out, typer.echo)
    except TrainingSetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{rows:,} questions are in {out / 'train.parquet'}; their sources in {out / 'sources.json'}")


if __name__ == "__main__":
    typer.run(main)
