"""Export of a checkpoint to a Hugging Face folder, which vLLM, transformers and `embedded:DIR` can load; and its check.

A run records the tokens of a few groups of each step with their log-probabilities under the weights after the step's
update (`rl.rollout.tokens`). The step's checkpoint holds these weights, so the export must assign the same tokens the
same log-probabilities, up to rounding. transformers loads the model from the exported files alone, so that faults in
writing them are detected.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from operator import mul
from pathlib import Path
from typing import Any

from agentflow.rl.rollout.tokens import TokenRow, unpacked
from agentflow.rl.run.checkpoints import ACTOR, CHECKPOINT, FOLDER, best_checkpoint, checkpoint_of, latest_step
from agentflow.rl.run.model_card import write_card
from agentflow.rl.run.training_log import TOKENS, TrainingLog, token_file
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


@dataclass(frozen=True)
class Checked:
    """Comparison of an exported policy with the records, by the log-probabilities of tokens, in nats."""

    tokens: int
    after: float
    """Root mean square difference from the records under the exported step's weights."""
    before: float
    """The same from the records under the weights before the step's update."""
    projection: float
    """Where the export is on the line from the log-probabilities before the update (0) to those after it (1)."""
    error: float
    """Standard error of `projection` (HC3; MacKinnon and White, 1985): few tokens have most of the rounding."""

    @classmethod
    def of(cls, found: Sequence[float], after: Sequence[float], before: Sequence[float]) -> "Checked":
        """Compare log-probabilities of the same tokens: `found` under the export, the others as recorded."""
        beside = [ours - new for ours, new in zip(found, after, strict=True)]
        moved = [ours - old for ours, old in zip(found, before, strict=True)]
        update = [new - old for new, old in zip(after, before, strict=True)]
        size = sum(each**2 for each in update)
        if not size:
            return cls(len(moved), _rms(beside), _rms(moved), projection=1.0, error=0.0)
        projection = sum(map(mul, moved, update)) / size
        pairs = zip(moved, update, strict=True)
        left = [(one - projection * each) * each / max(1 - each**2 / size, 1e-9) for one, each in pairs]
        return cls(len(moved), _rms(beside), _rms(moved), projection, math.hypot(*left) / size)

    @property
    def same(self) -> bool:
        """Return whether the export is consistent with the trained weights.

        It is not if it is nearer to the weights before the update by more than rounding explains. An update far below
        the rounding of bfloat16 cannot be told from none: the records differ by their own rounding, and the export is
        halfway.
        """
        return self.after <= TOLERANCE and self.projection >= 1 / 2 - ERRORS * self.error

    def __str__(self) -> str:
        """Return one line for the terminal."""
        beside = f"{self.before:.2g} from those before the step's update"
        return f"{self.after:.2g} nats from the recorded log-probabilities of {self.tokens} tokens, {beside}"


def export(
    source: Path,
    directory: Path,
    *,
    adapter: bool = False,
    best: bool = False,
) -> tuple[int, Checked | None]:
    """Write the policy of a checkpoint to `directory`, atomically.

    The adapter of a LoRA run is merged into its base model. Weights in single precision are converted to float16, since
    the embedded model and servers load 16-bit weights.

    Args:
        source: The run folder, or a checkpoint in it.
        directory: A new or empty folder.
        adapter: Also write a LoRA run's adapter, to `directory`/adapter.
        best: Write the step of a run with the highest held-out accuracy instead of the last one.

    Returns:
        The training step of the checkpoint, and the comparison of the model's log-probabilities with those that the run
        recorded under the same weights; None if it recorded none.

    Raises:
        ExportError: The checkpoint cannot be exported, or the written model differs from the trained one.
    """
    checkpoint = _best(source) if best else _checkpoint(source)
    actor = checkpoint / ACTOR
    lora = (actor / LORA_META).is_file()
    if adapter and not lora:
        raise ExportError(f"{checkpoint} has no adapter: all weights were trained", code="no_adapter")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ExportError(f"{directory} exists already; name a new folder", code="folder_exists")
    saved, run, step = actor / "huggingface", checkpoint.parents[1], int(checkpoint.name.removeprefix(CHECKPOINT))
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
            checked = _checked(folder, run, step)
            write_card(folder, directory.name, run, step)
            if directory.exists():
                directory.rmdir()
            folder.rename(directory)
    except OSError as error:
        raise ExportError(
            f"cannot write {directory} ({error.strerror or error}); choose another folder", code="unwritable"
        ) from error
    return step, checked


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


def _checked(folder: Path, run: Path, step: int) -> Checked | None:
    """Compare the model in `folder` with the records of `step`. Raises ExportError if they differ."""
    try:
        found = check(folder, run, step)
    except (OSError, ValueError, RuntimeError) as error:
        line = str(error).strip().partition("\n")[0]
        raise ExportError(
            f"transformers cannot compute the written model: {line}; nothing is kept of it", code="not_computed"
        ) from error
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


TOLERANCE = 0.1
"""Largest accepted root mean square difference of log-probabilities under the same weights, in nats. Converting the
micro model to float16 causes about 0.001; a trainer that computes in bfloat16 causes more."""

ERRORS = 3
"""Standard errors by which an export may seem nearer to the weights before the update."""

MOST = 8192
"""Maximum number of tokens to compute, prompts included; at least one row is computed."""


Recorded = list[tuple[int, float, float]]
"""Places of a row's sampled tokens, with their log-probabilities after and before the update of the step."""


def check(folder: Path, run: Path, step: int) -> Checked | None:
    """Compare the model in `folder` with the tokens that `run` recorded under `step`'s weights; None without any."""
    path, settings = run / TOKENS / token_file(step), run / "settings.json"
    found = unpacked(path.read_bytes()) if path.is_file() and settings.is_file() else None
    rows = [(row.ids, known) for row in (found.rows if found else ()) if (known := _recorded(row))]
    rows.sort(key=lambda row: len(row[0]))
    return _compared(folder, json.loads(settings.read_bytes())["temperature"], rows) if rows else None


def _recorded(row: TokenRow) -> Recorded:
    return [
        (place, after, before)
        for call in row.calls
        for place, after, before in zip(count(call.start), call.updated or (), call.trainer or (), strict=False)
        if after is not None and before is not None
    ]


def _compared(folder: Path, temperature: float, rows: Sequence[tuple[list[int], Recorded]]) -> Checked:
    found, recorded, computed = list[float](), Recorded(), 0
    for (ids, known), values in zip(rows, _log_probs(folder, rows, temperature), strict=False):
        found += values
        recorded += known
        computed += len(ids)
        if computed > MOST:
            break
    _, after, before = zip(*recorded, strict=True)
    return Checked.of(found, after, before)


def _log_probs(folder: Path, rows: Sequence[tuple[list[int], Recorded]], temperature: float) -> Iterator[list[float]]:
    """Yield the log-probabilities of each row's sampled tokens under the model in `folder`."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.float32 if device == "cpu" else "auto"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=kind)
    model.to(device)
    for row, known in rows:
        ids = torch.tensor([row], device=device)
        places = torch.tensor([place for place, _, _ in known], device=device)
        with torch.inference_mode():
            # The logits of a token are at the position of the preceding token.
            logits = model(input_ids=ids, logits_to_keep=places - 1).logits[0].float() / temperature
            chosen = logits.log_softmax(-1).gather(-1, ids[0, places].unsqueeze(-1))
        yield chosen.squeeze(-1).tolist()


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))
