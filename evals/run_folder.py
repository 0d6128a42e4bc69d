"""The run folder of an evaluation or a training. Its settings.json has the kind of the run."""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentflow.tools.coded_error import CodedError
from agentflow.tools.json_codec import model_from_json, object_from_json, read_regular

SETTINGS = "settings.json"

Kind = Literal["evaluation", "training"]


class RunFolderError(CodedError, ValueError):
    """A run folder cannot be used, or holds another run; `str()` is one line with the reason and a remedy."""


class RunSettings(BaseModel):
    """Settings that every settings.json has."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    """The first field of the file."""


Settings = TypeVar("Settings", bound=RunSettings)


def kind_of(content: bytes) -> str:
    """Return the kind that a settings.json names; empty if it names none, as in files of earlier versions."""
    return str((object_from_json(content) or {}).get("kind", ""))


def read_settings(folder: Path, model: type[Settings]) -> Settings:
    """Load the settings of a run. Raises RunFolderError."""
    wanted = model.model_fields["kind"].default
    try:
        content = read_regular(folder / SETTINGS)
    except OSError as error:
        raise RunFolderError(
            f"{folder} holds no {wanted}: {SETTINGS} cannot be read ({error.strerror})", code="unreadable"
        ) from error
    kind = kind_of(content)
    if kind and kind != wanted:
        raise RunFolderError(
            f"{folder} holds a run of kind {kind}, not {wanted}; choose another folder", code="other_kind"
        )
    try:
        if kind:
            return model_from_json(model, content)
    except ValidationError:
        pass
    raise RunFolderError(other_version(folder), code="other_version")


def other_version(folder: Path) -> str:
    """Return the error message for a folder of another version."""
    return f"{folder} was written by another version of AgentFlow, which this one does not read; choose another folder"


def write_settings(folder: Path, settings: RunSettings) -> None:
    """Write settings.json atomically. Raises OSError."""
    write_whole(folder / SETTINGS, f"{settings.model_dump_json(indent=2)}\n".encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
