"""Downloads from the Hugging Face hub at a fixed revision, verified against recorded checksums.

A pinned data set always has the same bytes, or raises an error. Revision and checksums come from the source's record if
there is one, else from the hub at the first download. Downloads use the hub's own client, which shows progress, knows
the user's token and resumes interrupted downloads.
"""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from pydantic import BaseModel

from agentflow.evals.benchmarks.errors import BenchmarkError


class Pin(BaseModel):
    """Files of a repository at a revision, with their checksums."""

    repository: str
    revision: str
    files: dict[str, str]
    """SHA-256 by name; "" until it is known."""


_HTTP_ERROR: type[Exception] = next(kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")
"""That of the library which the hub's client uses: requests, httpx or httpx2, by its version."""

TROUBLE = (_HTTP_ERROR, OSError, HFValidationError)
"""Exceptions besides BenchmarkError that these functions raise; `explain` describes each."""


def find(hub: HfApi, repository: str, pattern: str, revision: str | None = None) -> Pin:
    """Pin the files of `repository` that match `pattern`, at `revision` or the newest one.

    Raises BenchmarkError, TROUBLE.
    """
    info = hub.dataset_info(repository, revision=revision, files_metadata=True)
    files = {
        file.rfilename: file.lfs.sha256 if file.lfs else ""
        for file in sorted(info.siblings or (), key=lambda file: file.rfilename)
        if fnmatch(file.rfilename, pattern)
    }
    if not files:
        raise BenchmarkError(f"{repository} has no file {pattern}", code="no_file")
    return Pin(repository=repository, revision=info.sha or revision or "main", files=files)


def download(hub: HfApi, pin: Pin, folder: Path | None = None) -> Iterator[Path]:
    """Download the files of a pin to `folder` or the hub's cache, verify them and yield their paths.

    Unknown checksums are filled in.

    Raises BenchmarkError, TROUBLE.
    """
    for name, expected in pin.files.items():
        path = Path(
            hub.hf_hub_download(
                pin.repository, name, repo_type="dataset", revision=pin.revision, local_dir=folder or None
            )
        )
        digest = sha256(path)
        if expected and digest != expected:
            raise BenchmarkError(
                f"{path} is damaged: its SHA-256 is not that of {name}; remove it and try again", code="damaged_file"
            )
        pin.files[name] = digest
        yield path


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def explain(error: Exception, what: str) -> str:
    """Return one line on an exception of TROUBLE; `what` describes the download."""
    if isinstance(error, HFValidationError):
        return f"there is no such repository or revision ({' '.join(str(error).split())})"
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        return f"the hub answers {error.response.status_code} for {error.response.url}; try again later"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    why = "HF_HUB_OFFLINE is set" if isinstance(error, OfflineModeIsEnabled) else type(error).__name__
    return (
        f"the hub is out of reach ({why}); {what}: connect, or set HF_ENDPOINT to a mirror, and give the command "
        "again; it resumes"
    )
