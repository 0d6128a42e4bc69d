"""The paper's training set: open-domain questions (NQ) and mathematics (DeepMath), mixed into one parquet file.

Both come from the Hugging Face hub at a fixed revision. The revisions and the checksums of all files are written beside
the result, as `sources.json`; who builds again from that file gets the same bytes, or an error. Downloads go through
the hub's own client: they are cached, and one that was cut off goes on where it stopped.

    question   the question
    result     the accepted answers, joined by "; "
    source     nq or mathhard
    id         nq-0, mathhard-0, ...
    chain      "", and extra_info {ground_truth, idx}: as the reference implementation's readers expect
"""

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx
import pyarrow
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from pyarrow import parquet
from pyarrow.json import read_json

SHUFFLE_SEED = 42
SOURCES = "sources.json"


class TrainingSetError(RuntimeError):
    """The set cannot be built; `str()` is one line that says why and what to do."""


@dataclass(frozen=True)
class Source:
    """One data set of the mixture."""

    name: str
    repository: str
    files: str
    """Pattern of the files in the repository."""
    question: str
    """Name of the column."""
    answer: str
    """Name of the column: a text, or a list of accepted ones."""
    rows: int
    """How many there are in the paper's set."""


NQ = Source("nq", "RUC-NLPIR/FlashRAG_datasets", "nq/train.jsonl", "question", "golden_answers", 79_168)
DEEPMATH = Source("mathhard", "zwhe99/DeepMath-103K", "data/train-*.parquet", "question", "final_answer", 103_022)


def build(
    out: Path, on_step: Callable[[str], None], sources: Sequence[Source] = (NQ, DEEPMATH), hub: HfApi | None = None
) -> int:
    """Writes `out`/train.parquet and `out`/sources.json; returns the number of rows. `on_step` is told what happens.

    Raises TrainingSetError: the hub is out of reach, a file is not what it was, or cannot be written.
    """
    hub = hub or HfApi()
    try:
        out.mkdir(parents=True, exist_ok=True)
        pinned = _read_pins(out / SOURCES)
        pins: dict[str, Any] = {}
        rows: list[dict[str, Any]] = []
        for source in sources:
            on_step(f"{source.name}: {source.repository}")
            pin = pinned.get(source.name) or _pin(source, hub)
            found = [row for path in _download(source, pin, hub) for row in _read(source, path)]
            if len(found) != source.rows:
                raise TrainingSetError(
                    f"{source.repository} has {len(found):,} questions at revision {pin['revision']}, and the paper's "
                    f"set {source.rows:,}; name an earlier revision in {out / SOURCES}"
                )
            rows += [_row(source, number, row) for number, row in enumerate(found)]
            pins[source.name] = pin
        on_step(f"mixing {len(rows):,} questions")
        random.Random(SHUFFLE_SEED).shuffle(rows)
        _write(out / "train.parquet", rows)
        (out / SOURCES).write_text(json.dumps(pins, indent=2) + "\n", encoding="utf-8")
    except HFValidationError as error:
        raise TrainingSetError(f"{out / SOURCES} names no repository or revision ({error})") from error
    except (httpx.HTTPError, OSError) as error:
        raise TrainingSetError(_explain(error)) from error
    return len(rows)


def _read_pins(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        pins: dict[str, Any] = json.loads(path.read_bytes())
        for pin in pins.values():
            _ = pin["revision"], dict(pin["files"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingSetError(f"{path} cannot be read; remove it to take the newest revisions") from error
    return pins


def _pin(source: Source, hub: HfApi) -> dict[str, Any]:
    """The newest revision, and the SHA-256 of each of its files that the pattern names."""
    info = hub.dataset_info(source.repository, files_metadata=True)
    files = {
        file.rfilename: file.lfs.sha256 if file.lfs else ""
        for file in sorted(info.siblings or (), key=lambda file: file.rfilename)
        if fnmatch(file.rfilename, source.files)
    }
    if not files:
        raise TrainingSetError(f"{source.repository} has no file {source.files}")
    return {"repository": source.repository, "revision": info.sha, "files": files}


def _download(source: Source, pin: dict[str, Any], hub: HfApi) -> Iterator[Path]:
    """The files of a pin, checked; a checksum that the hub does not tell is filled in."""
    for name, expected in pin["files"].items():
        path = Path(hub.hf_hub_download(source.repository, name, repo_type="dataset", revision=pin["revision"]))
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if expected and digest != expected:
            raise TrainingSetError(f"{path} is damaged: its SHA-256 is not that of {name}; remove it and try again")
        pin["files"][name] = digest
        yield path


def _read(source: Source, path: Path) -> list[dict[str, Any]]:
    """The rows of a file with only the two columns that are needed: worked solutions are most of the bytes."""
    columns = [source.question, source.answer]
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path, columns=columns)
        else:
            table = read_json(path).select(columns)
    except (pyarrow.ArrowException, KeyError) as error:
        raise TrainingSetError(f"{path} has not the columns {' and '.join(columns)}") from error
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _row(source: Source, number: int, row: dict[str, Any]) -> dict[str, Any]:
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
    """Whole or not at all."""
    beside = path.with_suffix(".tmp")
    parquet.write_table(pyarrow.Table.from_pylist(rows), beside)
    os.replace(beside, path)


def _explain(error: httpx.HTTPError | OSError) -> str:
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        return f"the hub answers {error.response.status_code} for {error.response.url}; try again later"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    why = "HF_HUB_OFFLINE is set" if isinstance(error, OfflineModeIsEnabled) else type(error).__name__
    return (
        f"the hub is out of reach ({why}); the training set is downloaded once, about 2 GB: connect, or set "
        "HF_ENDPOINT to a mirror, and give the command again; it goes on where it stopped"
    )
