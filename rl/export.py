"""A checkpoint of a training run as a Hugging Face folder, which vLLM, transformers and `embedded:DIR` read."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from agentflow.rl.export_check import Checked, check

LATEST = "latest_checkpointed_iteration.txt"
"""verl's note of the last whole checkpoint."""

LORA_META = "lora_train_meta.json"
"""verl's note of a LoRA run's rank and alpha, beside the shards of a checkpoint."""

TOKENIZER = "tokenizer"
"""Folder of the micro model's tokenizer, in a run and in an export. transformers 5 reads a tokenizer that lies beside a
config.json of Qwen2 as if it were Qwen2's own, whatever it says; from a folder of its own it reads it as it is."""


class ExportError(ValueError):
    """There is nothing to export, or nowhere to put it; `str()` is one line that says which."""


ADAPTER = "adapter"
"""Folder of a LoRA run's adapter in an export, in PEFT's format."""


def export(
    source: Path,
    directory: Path,
    *,
    adapter: bool = False,
    on_checked: Callable[[Checked | None], None] = lambda checked: None,
) -> int:
    """Writes the policy of `source`, a run's folder or one of its checkpoints, to `directory`, whole or not at all.

    The adapter of a LoRA run is merged into its base model. Weights that were trained in single precision are halved:
    the embedded model and servers compute from 16 bits.

    Args:
        source: The run's folder, or a checkpoint in it.
        directory: A new folder, or an empty one.
        adapter: Write a LoRA run's adapter by itself too, to `directory`/adapter.
        on_checked: Gets how the model's log-probabilities compare with those that the run recorded of the same weights;
            None where it recorded none.

    Returns the training step. Raises ExportError, also where the written model is not what was trained.
    """
    checkpoint = _checkpoint(source)
    lora = (checkpoint / "actor" / LORA_META).is_file()
    if adapter and not lora:
        raise ExportError(f"{checkpoint} has no adapter: all weights were trained")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ExportError(f"{directory} exists already; name a new folder")
    saved, run, step = checkpoint / "actor" / "huggingface", checkpoint.parents[1], _step(checkpoint)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as work:
            folder = Path(work) / "model"
            own_tokenizer = run / TOKENIZER
            if any(saved.glob("*.safetensors")) and not lora:
                shutil.copytree(saved, folder)
            else:
                dtype = "float32" if own_tokenizer.is_dir() else "bfloat16"
                _merge_shards(checkpoint / "actor", folder, dtype, folder / ADAPTER if adapter else None)
            _halve(folder)
            if own_tokenizer.is_dir():
                shutil.copytree(own_tokenizer, folder / TOKENIZER)
            on_checked(_checked(folder, run, step))
            if directory.exists():
                directory.rmdir()
            folder.rename(directory)
    except OSError as error:
        raise ExportError(f"cannot write {directory} ({error.strerror or error}); choose another folder") from error
    return step


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("global_step_"))


def _checkpoint(source: Path) -> Path:
    for folder in (source, source / "checkpoints"):
        note = folder / LATEST
        if note.is_file() and note.read_text().strip().isdigit():
            source = folder / f"global_step_{note.read_text().strip()}"
            break
    if not (source / "actor").is_dir() or not source.name.startswith("global_step_"):
        raise ExportError(f"{source} is no checkpoint; name a run's folder, or checkpoints/global_step_N in it")
    return source


def _checked(folder: Path, run: Path, step: int) -> Checked | None:
    """Raises ExportError if the model in `folder` is not that of `step`."""
    try:
        found = check(folder, run, step)
    except (OSError, ValueError, RuntimeError) as error:
        line = str(error).strip().partition("\n")[0]
        raise ExportError(f"transformers cannot compute the written model: {line}; nothing is kept of it") from error
    if found and not found.same:
        raise ExportError(f"the written model is not the policy of step {step}: {found}; nothing is kept of it")
    return found


def _merge_shards(actor: Path, folder: Path, dtype: str, adapter: Path | None) -> None:
    """Puts together what each rank saved, in a process of its own for its memory's sake."""
    command = [sys.executable, "-m", "agentflow.rl.trainer.merge", str(actor), str(folder), dtype]
    command += ["--adapter", str(adapter)] if adapter else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExportError(f"{actor} cannot be merged: {last}")


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
