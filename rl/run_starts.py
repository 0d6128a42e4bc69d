"""Starts of a training run, in starts.jsonl of its folder: with which code, kernels and configuration it computed.

A run that was stopped and resumed has several. Each holds for the steps after its own, up to the next start.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow.evals.passport.collect import PACKAGES, file_sha256, installed, source_hash
from agentflow.graph.run.trace import append
from agentflow.rl.checkpoints import latest_step
from agentflow.rl.kernels import Kernels, kernels
from agentflow.tools.coded_error import CodedError
from agentflow.tools.named_object import source_file

STARTS = "starts.jsonl"

OWN = "agentflow"
"""Name of AgentFlow's source files in `Start.code`."""

FOLDERS = ("graph", "nodes", "tools", "evals", "rl")
"""Folders of the source files that affect a training."""

TRAINING = (*PACKAGES, "ray", "safetensors", "tensordict", "TransferQueue", "verl", "vllm")
"""Packages that affect a training."""


class StartsError(CodedError, ValueError):
    """A run folder has no readable starts.jsonl; `str()` is one line that explains why."""


class Start(BaseModel):
    """A start of a run, a line of starts.jsonl."""

    model_config = ConfigDict(extra="forbid")

    at: str
    """UTC, ISO 8601."""
    step: int = Field(ge=0)
    """Step of the checkpoint that it began from; 0 for the start weights."""
    code: dict[str, str]
    """SHA-256 of AgentFlow's source files, and of the module of the app where that is another."""
    versions: dict[str, str]
    """Versions of the packages that are installed."""
    kernels: Kernels
    config: dict[str, Any]
    """The composed configuration, interpolations unresolved."""


def record_start(out: Path, config: DictConfig, threads: int) -> None:
    """Add a start to the run in the folder `out`; the app has been imported, and an operation has `threads` threads."""
    append(
        out / STARTS,
        Start(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            step=latest_step(out) or 0,
            code=code_of(config.app),
            versions=installed(TRAINING),
            kernels=kernels(threads, config.trainer.device),
            config=OmegaConf.to_container(config),
        ),
    )


def read_starts(out: Path, first: int = 0) -> list[Start]:
    """Return the starts of the run in the folder `out`, the first one after the step `first`. Raises StartsError."""
    path, starts = out / STARTS, list[Start]()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise StartsError(
            f"{out} does not say what it was computed with: {STARTS} cannot be read ({error.strerror})",
            code="no_starts",
        ) from error
    for line in lines:
        try:
            starts.append(Start.model_validate_json(line))
        except ValidationError:
            continue  # torn by a kill, before the first step of that start
    if not starts or starts[0].step != first:
        raise StartsError(
            f"{path} does not have the first start of the run; it is damaged, or of another version", code="bad_starts"
        )
    return starts


def start_of(starts: Sequence[Start], step: int) -> Start:
    """Return the start in which `step`, from 1, was computed."""
    return [start for start in starts if start.step < step][-1]


def code_of(app: str) -> dict[str, str]:
    """Return the hashes of the code that trains the app `module:attribute`, which has been imported."""
    module, path = app.partition(":")[0], source_file(app)
    code = {OWN: source_hash(FOLDERS)}
    if path is not None and not module.startswith("agentflow."):
        code[module] = file_sha256(path)
    return code
