"""Contents of a certificate: hashes of a run's inputs and outputs.

`contents_of` reads it from a run folder, to certify the run and again to check it: what differs was altered.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from agentflow.evals.passport.collect import file_sha256
from agentflow.evals.run_folder import SETTINGS, RunFolderError, read_settings
from agentflow.rl.certificate.batches import BatchHashes, batch_hashes
from agentflow.rl.certificate.canonical import hash_of
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.certificate.weights import Delta, Weights
from agentflow.rl.checkpoints import checkpoint_of, saved_steps
from agentflow.rl.export import TOKENIZER
from agentflow.rl.kernels import Kernels
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.run_starts import StartsError, read_starts
from agentflow.rl.settings import TrainingSettings
from agentflow.rl.trainable import Split
from agentflow.rl.training_log import TrainingLog

SPLITS: tuple[Split, ...] = ("train", "test")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CertifiedStart(_Part):
    """A start of the run (`agentflow.rl.run_starts.Start`)."""

    step: int = Field(ge=0)
    code: dict[str, str]
    versions: dict[str, str]
    kernels: Kernels
    config: dict[str, str]
    """Hash of each group of the composed configuration."""


class CertifiedStep(_Part):
    """A step, or the validation after it."""

    batch: BatchHashes
    digest: str
    """Digest of the batch as the trainer had it (`agentflow.rl.batch`); "" for a validation."""
    metrics: str
    """SHA-256 of the line of metrics.jsonl."""


class CertifiedCheckpoint(_Part):
    """A checkpoint, and the change of the weights since the one before it, or since the start."""

    files: dict[str, str]
    since: int = Field(ge=0)
    """Step of the checkpoint before; 0 for the start weights."""
    delta: str
    """SHA-256 of the change of all weights; "" where a checkpoint has no safetensors files of the same tensors.

    Those of large models and of LoRA have none."""


class Contents(_Part):
    """The contents of a certificate. All hashes are SHA-256, in hexadecimal digits."""

    format: Literal[1]
    app: str
    preset: str
    steps: int = Field(ge=1)
    """The last step."""
    starts: list[CertifiedStart] = Field(min_length=1)
    seed: dict[str, str]
    """Files of the start weights."""
    data: dict[str, str]
    """Files of the task sets."""
    files: dict[str, str]
    """Other files that the trainer reads."""
    settings: dict[str, str]
    batches: dict[str, CertifiedStep]
    """By step and split: "1 train"."""
    checkpoints: dict[int, CertifiedCheckpoint]

    def inputs(self) -> dict[str, str]:
        """Return every hash and fact by a name for people: "step 1 train: tokens"."""
        found = {"steps": str(self.steps), "app": self.app, "preset": self.preset, **self._starts()}
        for group, files in (("seed weights", self.seed), ("data", self.data), ("file", self.files)):
            found |= {f"{group}: {name}": value for name, value in files.items()}
        found |= {f"setting: {name}": value for name, value in self.settings.items()}
        for name, one in self.batches.items():
            facts = {**one.batch.model_dump(), "batch digest": one.digest, "metrics": one.metrics}
            found |= {f"step {name}: {part}": value for part, value in facts.items()}
        for step, saved in self.checkpoints.items():
            found |= {f"checkpoint {step}: {name}": value for name, value in saved.files.items()}
            found[f"weight delta of steps {saved.since + 1} to {step}"] = saved.delta
        return found

    def _starts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for start in self.starts:
            name = f"start after step {start.step}"
            for group, facts in (("code", start.code), ("version", start.versions), ("configuration", start.config)):
                found |= {f"{name}: {group} of {one}": value for one, value in facts.items()}
            found[f"{name}: kernels"] = hash_of(start.kernels.model_dump())
        return found


def contents_of(
    run: Path,
    *,
    steps: int | None = None,
    seed: Path | None = None,
    on_part: Callable[[str], None] = lambda name: None,
) -> Contents:
    """Read the contents of a certificate from a run folder.

    Args:
        run: The folder of a training.
        steps: The last step; None for the last one of which metrics were recorded. Later records are left out.
        seed: Folder of the start weights, where it is not the one that the settings name.
        on_part: Called with the name of each part before it is read.

    Raises:
        CertificateError: The folder holds no training that can be certified.
    """
    try:
        settings, starts = read_settings(run, TrainingSettings), read_starts(run)
    except (RunFolderError, StartsError) as error:
        raise CertificateError(str(error), code=error.code) from error
    log, start = TrainingLog(run), seed or start_folder(settings.start)
    lines = metrics_lines(run)
    last = max([step for step, split in lines if split == "train"], default=0) if steps is None else steps
    if not last:
        raise CertificateError(f"{run} has no trained step yet", code="no_steps")
    try:
        return Contents(
            format=1,
            app=settings.app,
            preset=settings.preset,
            steps=last,
            starts=[
                CertifiedStart(
                    step=one.step,
                    code=one.code,
                    versions=one.versions,
                    kernels=one.kernels,
                    config={name: hash_of(group) for name, group in one.config.items()},
                )
                for one in starts
                if one.step < last
            ],
            seed=files_of(start, on_part),
            data=files_of(run / "tasks", on_part),
            files={**files_of(run / TOKENIZER, on_part), **_named(run / "agent_loop.yaml")},
            settings={name: hash_of(value) for name, value in from_json((run / SETTINGS).read_bytes()).items()},
            batches=dict(_batches(log, lines, last, on_part)),
            checkpoints=dict(_checkpoints(run, start, last, on_part)),
        )
    except OSError as error:
        raise CertificateError(f"cannot read {error.filename or run} ({error.strerror})", code="unreadable") from error


def start_folder(start: str) -> Path:
    """Return the folder of the weights that a run starts from. Raises CertificateError if it is not on this machine."""
    folder = SEED if start == "seed" else Path(start).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(start, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise CertificateError(
            f"the start weights {start} are not on this machine; name their folder by --seed", code="no_seed"
        ) from error


def files_of(folder: Path, on_part: Callable[[str], None] = lambda name: None) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by its path there; hidden files are left out. Raises OSError."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in name.split("/")):
            on_part(f"{folder.name}/{name}")
            found[name] = file_sha256(path)
    return found


def _named(path: Path) -> dict[str, str]:
    return {path.name: file_sha256(path)} if path.is_file() else {}


def metrics_lines(run: Path) -> dict[tuple[int, Split], bytes]:
    """Return the line of metrics.jsonl of each step and split, or the lines where one was added.

    Unreadable lines are left out. Raises CertificateError.
    """
    found: dict[tuple[int, Split], bytes] = {}
    try:
        lines = (run / "metrics.jsonl").read_bytes().splitlines()
    except OSError as error:
        raise CertificateError(f"{run} has no metrics.jsonl ({error.strerror})", code="no_steps") from error
    for line in lines:
        try:
            step, split = (known := from_json(line))["step"], known["split"]
        except (ValueError, KeyError, TypeError):
            continue
        if type(step) is int and split in SPLITS:
            found[step, split] = found.get((step, split), b"") + line + b"\n"
    return found


def _batches(
    log: TrainingLog, lines: dict[tuple[int, Split], bytes], last: int, on_part: Callable[[str], None]
) -> Iterator[tuple[str, CertifiedStep]]:
    for (step, split), line in sorted(lines.items()):
        if step > last:
            continue
        on_part(f"step {step} {split}")
        digest = from_json(line.split(b"\n")[0]).get("batch", "") if split == "train" else ""
        yield (
            f"{step} {split}",
            CertifiedStep(batch=batch_hashes(log, step, split), digest=str(digest), metrics=_line_hash(line)),
        )


def _line_hash(line: bytes) -> str:
    return hash_of(line.decode("utf-8", "surrogateescape"))


def _checkpoints(
    run: Path, start: Path, last: int, on_part: Callable[[str], None]
) -> Iterator[tuple[int, CertifiedCheckpoint]]:
    since, before = 0, Weights.of_model(start)
    for step in saved_steps(run):
        if step > last:
            continue
        folder = checkpoint_of(run, step)
        files, after = files_of(folder, on_part), Weights.of_checkpoint(folder)
        on_part(f"weight delta of steps {since + 1} to {step}")
        delta = Delta(before, after)
        yield step, CertifiedCheckpoint(files=files, since=since, delta=delta.hash() if delta else "")
        since, before = step, after
