"""A checkpoint of a training run as a Hugging Face folder, which vLLM, transformers and `embedded:DIR` read."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LATEST = "latest_checkpointed_iteration.txt"
"""verl's note of the last whole checkpoint."""


TOKENIZER = "tokenizer"
"""Folder of the micro model's tokenizer, in a run and in an export. transformers 5 reads a tokenizer that lies beside a
config.json of Qwen2 as if it were Qwen2's own, whatever it says; from a folder of its own it reads it as it is."""


class ExportError(ValueError):
    """There is nothing to export, or nowhere to put it; `str()` is one line that says which."""


def export(source: Path, directory: Path) -> int:
    """Writes the policy of `source`, a run's folder or one of its checkpoints, to `directory`, whole or not at all.

    Returns the training step. Weights that were trained in single precision are halved: the embedded model and servers
    compute from 16 bits. Raises ExportError.
    """
    checkpoint = _checkpoint(source)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ExportError(f"{directory} exists already; name a new folder")
    saved = checkpoint / "actor" / "huggingface"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as work:
            folder = Path(work) / "model"
            if any(saved.glob("*.safetensors")):
                shutil.copytree(saved, folder)
            else:
                _merge_shards(checkpoint / "actor", folder)
            _halve(folder)
            own_tokenizer = checkpoint.parents[1] / TOKENIZER
            if own_tokenizer.is_dir():
                shutil.copytree(own_tokenizer, folder / TOKENIZER)
            if directory.exists():
                directory.rmdir()
            folder.rename(directory)
    except OSError as error:
        raise ExportError(f"cannot write {directory} ({error.strerror or error}); choose another folder") from error
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


def _merge_shards(actor: Path, folder: Path) -> None:
    """What each rank saved, put together by verl's own tool, in a process of its own for its memory's sake."""
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExportError(f"verl cannot merge {actor}: {last}")


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
