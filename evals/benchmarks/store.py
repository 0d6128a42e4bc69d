"""Data sets in the user's cache: one folder per benchmark, with its files and `lock.json`.

The lock has the revision and the SHA-256 of every file: from `DatasetSource` if recorded there, else from the first
download. Later downloads must be identical. The lock is written last: a data set with a lock is complete.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import BaseModel, ValidationError

from agentflow.evals.benchmarks.errors import BenchmarkError, TokenNeeded

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from agentflow.evals.hub import Pin


@dataclass(frozen=True)
class DatasetSource:
    """The source of a data set: files of a repository on the Hugging Face hub."""

    repository: str
    files: tuple[str, ...]
    """Patterns for one or several files each, in reading order."""
    rows: int
    """Number of rows that the benchmark uses."""
    revision: str | None = None
    """Commit of the repository; None for the newest one at the first download."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Known SHA-256 by file name."""
    gated: bool = False
    """True if the download needs a token of a user who has accepted the terms."""


class Lock(BaseModel):
    """The content of a data set's folder."""

    repository: str
    revision: str
    files: dict[str, str]
    """SHA-256 by file name, in reading order."""
    rows: int


def folder(name: str) -> Path:
    """Return the folder for the files of benchmark `name`, which may not exist yet."""
    return Path(platformdirs.user_cache_dir("agentflow")) / "benchmarks" / name


def lock_of(name: str) -> Lock | None:
    """Return the lock of a data set, None if it is not downloaded. Raises BenchmarkError if it cannot be read."""
    path = folder(name) / "lock.json"
    try:
        return Lock.model_validate_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValidationError) as error:
        why = f"{path} cannot be read; remove it and run: agentflow data get {name}"
        raise BenchmarkError(why, code="bad_lock") from error


def files(name: str) -> list[Path]:
    """Return the files of a downloaded data set. Raises BenchmarkError, also if it is not downloaded."""
    lock = lock_of(name)
    paths = [folder(name) / file for file in lock.files] if lock else []
    if not paths or not all(path.exists() for path in paths):
        raise BenchmarkError(f"{name} is not downloaded; run: agentflow data get {name}", code="not_downloaded")
    return paths


def get(name: str, source: DatasetSource, count: Callable[[list[Path]], int], hub: "HfApi | None" = None) -> Lock:
    """Download the data set of benchmark `name`, or verify the downloaded one without the network.

    `count` returns the number of rows of files.

    Raises:
        TokenNeeded: The data set is gated, and the user's token is missing or has no access.
        BenchmarkError: The hub cannot be reached, or a file or the number of rows differs from the expected one.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    from agentflow.evals import hub as hugging_face

    hub = hub or HfApi()
    try:
        if (lock := lock_of(name)) and _intact(name, lock):
            return lock
        pin = hugging_face.Pin(**lock.model_dump(exclude={"rows"})) if lock else _pin(source, hub)
        rows = count(list(hugging_face.download(hub, pin, folder(name))))
        if rows != source.rows:
            why = f"{source.repository} has {rows:,} questions at revision {pin.revision}, and {name} {source.rows:,}"
            raise BenchmarkError(why, code="other_size")
        lock = Lock(**pin.model_dump(), rows=rows)
        (folder(name) / "lock.json").write_text(json.dumps(lock.model_dump(), indent=2) + "\n", encoding="utf-8")
        return lock
    except hugging_face.TROUBLE as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else 0
        if source.gated and status in (401, 403, 404):
            raise TokenNeeded(_terms(name, source, hub.endpoint)) from error
        beside = f"; {_terms(name, source, hub.endpoint)}" if source.gated else ""
        why = hugging_face.explain(error, f"{name} is downloaded once") + beside
        raise BenchmarkError(why, code="download_failed") from error


def _intact(name: str, lock: Lock) -> bool:
    """Return whether all files exist. Raises BenchmarkError if a checksum differs from the lock."""
    from agentflow.evals.hub import sha256

    for file, expected in lock.files.items():
        path = folder(name) / file
        if not path.exists():
            return False
        if sha256(path) != expected:
            why = f"{path} was changed: its SHA-256 is not that of lock.json; remove it and try again"
            raise BenchmarkError(why, code="changed_file")
    return True


def _pin(source: DatasetSource, hub: "HfApi") -> "Pin":
    from agentflow.evals.hub import Pin, find

    pins = [find(hub, source.repository, pattern, source.revision) for pattern in source.files]
    found = {name: source.checksums.get(name) or known for pin in pins for name, known in pin.files.items()}
    return Pin(repository=source.repository, revision=pins[0].revision, files=found)


def _terms(name: str, source: DatasetSource, endpoint: str) -> str:
    return (
        f"{name} is gated: accept its terms at {endpoint}/datasets/{source.repository}, make a token that may read "
        "it, and set HF_TOKEN to it"
    )
