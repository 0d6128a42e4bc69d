"""Data sets in the user's cache: one folder per benchmark, its files, and `lock.json`, which says what they are.

The lock holds the revision and the SHA-256 of every file, from `Source` where they are recorded there, else from the
first download: later ones have to be the same. A data set is there when its lock is, which is written last.
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
class Source:
    """Where a data set is downloaded from: files of a repository of the Hugging Face hub."""

    repository: str
    files: tuple[str, ...]
    """Patterns, each of one or several files, in the order in which they are read."""
    rows: int
    """How many rows of theirs a benchmark takes."""
    revision: str | None = None
    """None: the newest one, at the first download."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of files, where it was known beforehand."""
    gated: bool = False
    """Whether it takes the user's own token, and that its terms were accepted."""


class Lock(BaseModel):
    """What lies in a folder."""

    repository: str
    revision: str
    files: dict[str, str]
    """SHA-256 by name, in the order in which they are read."""
    rows: int


def folder(name: str) -> Path:
    """Where the files of benchmark `name` lie or will lie."""
    return Path(platformdirs.user_cache_dir("agentflow")) / "benchmarks" / name


def lock_of(name: str) -> Lock | None:
    """The lock of a data set, None if it is not there. Raises BenchmarkError if it cannot be read."""
    path = folder(name) / "lock.json"
    try:
        return Lock.model_validate_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValidationError) as error:
        raise BenchmarkError(f"{path} cannot be read; remove it and run: agentflow data get {name}") from error


def files(name: str) -> list[Path]:
    """The files of a data set that is there. Raises BenchmarkError."""
    lock = lock_of(name)
    paths = [folder(name) / file for file in lock.files] if lock else []
    if not paths or not all(path.exists() for path in paths):
        raise BenchmarkError(f"{name} is not downloaded; run: agentflow data get {name}")
    return paths


def get(name: str, source: Source, count: Callable[[list[Path]], int], hub: "HfApi | None" = None) -> Lock:
    """Downloads a data set, or checks the one that is there, without the network. `count` tells the rows of its files.

    Raises:
        TokenNeeded: The data set is gated.
        BenchmarkError: The hub is out of reach, or a file is not what it should be.
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
            raise BenchmarkError(
                f"{source.repository} has {rows:,} questions at revision {pin.revision}, and {name} {source.rows:,}"
            )
        lock = Lock(**pin.model_dump(), rows=rows)
        (folder(name) / "lock.json").write_text(json.dumps(lock.model_dump(), indent=2) + "\n", encoding="utf-8")
        return lock
    except hugging_face.HubError as error:
        raise BenchmarkError(str(error)) from error
    except hugging_face.TROUBLE as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else 0
        if source.gated and status in (401, 403, 404):
            raise TokenNeeded(_terms(name, source, hub.endpoint)) from error
        beside = f"; {_terms(name, source, hub.endpoint)}" if source.gated else ""
        raise BenchmarkError(hugging_face.explain(error, f"{name} is downloaded once") + beside) from error


def _intact(name: str, lock: Lock) -> bool:
    """Whether all files are there. Raises BenchmarkError if one is not what the lock says."""
    from agentflow.evals.hub import sha256

    for file, expected in lock.files.items():
        path = folder(name) / file
        if not path.exists():
            return False
        if sha256(path) != expected:
            raise BenchmarkError(f"{path} was changed: its SHA-256 is not that of lock.json; remove it and try again")
    return True


def _pin(source: Source, hub: "HfApi") -> "Pin":
    from agentflow.evals.hub import Pin, find

    pins = [find(hub, source.repository, pattern, source.revision) for pattern in source.files]
    found = {name: source.checksums.get(name) or known for pin in pins for name, known in pin.files.items()}
    return Pin(repository=source.repository, revision=pins[0].revision, files=found)


def _terms(name: str, source: Source, endpoint: str) -> str:
    return (
        f"{name} is gated: accept its terms at {endpoint}/datasets/{source.repository}, make a token that may read "
        "it, and set HF_TOKEN to it"
    )
