"""Export of a checkpoint to a Hugging Face folder, which vLLM, transformers and `embedded:DIR` can load."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from agentflow.rl.checkpoints import ACTOR, CHECKPOINT, FOLDER, best_checkpoint, checkpoint_of, latest_step
from agentflow.rl.export_check import Checked, check, is_start
from agentflow.rl.training_log import TrainingLog
from agentflow.tools.coded_error import CodedError

LORA_META = "lora_train_meta.json"
"""File in which verl records the rank and alpha of a LoRA run, beside the shards of a checkpoint."""

TOKENIZER = "tokenizer"
"""Folder of the micro model's tokenizer, in a run and in an export. It must be separate from config.json: beside a
config.json of Qwen2, transformers 5 loads any tokenizer as a Qwen2 tokenizer."""


class ExportError(CodedError, ValueError):
    """A checkpoint cannot be exported; `str()` is one line that explains why."""


ADAPTER = "adapter"
"""Folder of a LoRA run's adapter in an export, in PEFT's format."""


def export(
    source: Path,
    directory: Path,
    *,
    adapter: bool = False,
    best: bool = False,
    on_checked: Callable[[Checked | None], None] = lambda checked: None,
) -> int:
    """Write the policy of a checkpoint to `directory`, atomically.

    The adapter of a LoRA run is merged into its base model. Weights in single precision are converted to float16, since
    the embedded model and servers load 16-bit weights.

    Args:
        source: The run folder, or a checkpoint in it.
        directory: A new or empty folder.
        adapter: Also write a LoRA run's adapter, to `directory`/adapter.
        best: Write the step of a run with the highest held-out accuracy instead of the last one.
        on_checked: Called with the comparison of the model's log-probabilities with those that the run recorded under
            the same weights; None if it recorded none.

    Returns:
        The training step of the checkpoint.

    Raises:
        ExportError: The checkpoint cannot be exported, or the written model differs from the trained one.
    """
    checkpoint = _best(source) if best else _checkpoint(source)
    actor = _actor(checkpoint)
    lora = (actor / LORA_META).is_file()
    if adapter and not lora:
        raise ExportError(f"{checkpoint} has no adapter: all weights were trained", code="no_adapter")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ExportError(f"{directory} exists already; name a new folder", code="folder_exists")
    saved, run, step = actor / "huggingface", checkpoint.parents[1], _step(checkpoint)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as work:
            folder = Path(work) / "model"
            own_tokenizer = run / TOKENIZER
            if any(saved.glob("*.safetensors")) and not lora:
                shutil.copytree(saved, folder)
            else:
                dtype = "float32" if own_tokenizer.is_dir() else "bfloat16"
                _merge_shards(actor, folder, dtype, folder / ADAPTER if adapter else None)
            _halve(folder)
            if own_tokenizer.is_dir():
                shutil.copytree(own_tokenizer, folder / TOKENIZER)
            on_checked(_checked(folder, run, step))
            if directory.exists():
                directory.rmdir()
            folder.rename(directory)
    except OSError as error:
        raise ExportError(
            f"cannot write {directory} ({error.strerror or error}); choose another folder", code="unwritable"
        ) from error
    return step


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(CHECKPOINT))


def _checkpoint(source: Path) -> Path:
    """Return the absolute path of a checkpoint, whose parents are those of its run. Raises ExportError."""
    checkpoint = source.absolute()
    run = checkpoint.parent if checkpoint.name == FOLDER else checkpoint
    if (step := latest_step(run)) is not None:
        checkpoint = checkpoint_of(run, step)
    if not (checkpoint / ACTOR).is_dir() or not checkpoint.name.startswith(CHECKPOINT):
        raise ExportError(
            f"{source} is no checkpoint; name a run's folder, or checkpoints/global_step_N in it", code="no_checkpoint"
        )
    return checkpoint


def _best(run: Path) -> Path:
    """Return the absolute path of a run's best checkpoint. Raises ExportError."""
    checkpoint = best_checkpoint(run.absolute(), TrainingLog(run).accuracies())
    if checkpoint is None:
        raise ExportError(
            f"{run} has no step that was both saved and validated; name a run's folder, or leave --best out",
            code="no_best",
        )
    return checkpoint


def _actor(checkpoint: Path) -> Path:
    """Return the folder of the policy in a checkpoint. Raises ExportError if it has several, as before 0.2.0."""
    actor = checkpoint / ACTOR
    if names := sorted(folder.parent.name for folder in actor.glob("*/huggingface")):
        raise ExportError(
            f"{checkpoint} has the policies {', '.join(names)}, each with weights of its own; AgentFlow 0.1 exports it",
            code="several_policies",
        )
    return actor


def _checked(folder: Path, run: Path, step: int) -> Checked | None:
    """Compare the model in `folder` with the records of `step`. Raises ExportError if they differ, or if the model is
    the one that the run started from.
    """
    try:
        untrained, found = is_start(folder, run, step), check(folder, run, step)
    except (OSError, ValueError, RuntimeError) as error:
        line = str(error).strip().partition("\n")[0]
        raise ExportError(
            f"transformers cannot compute the written model: {line}; nothing is kept of it", code="not_computed"
        ) from error
    if untrained:
        raise ExportError(
            "the written model has the weights of the run's start; nothing is kept of it", code="untrained"
        )
    if found and not found.same:
        raise ExportError(
            f"the written model is not the policy of step {step}: {found}; nothing is kept of it", code="other_policy"
        )
    return found


def _merge_shards(actor: Path, folder: Path, dtype: str, adapter: Path | None) -> None:
    """Merge the shards of all ranks, in a separate process so that its memory is freed afterwards."""
    command = [sys.executable, "-m", "agentflow.rl.trainer.merge", str(actor), str(folder), dtype]
    command += ["--adapter", str(adapter)] if adapter else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExportError(f"{actor} cannot be merged: {last}", code="not_merged")


def _halve(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        if any(tensor.dtype == torch.float32 for tensor in tensors.values()):
            save_file({name: tensor.half() for name, tensor in tensors.items()}, path, {"format": "pt"})
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            config["dtype"] = "float16"
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
