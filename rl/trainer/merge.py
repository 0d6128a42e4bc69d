"""Puts the shards of a checkpoint together as a Hugging Face folder.

    python -m agentflow.rl.trainer.merge ACTOR FOLDER DTYPE [--adapter FOLDER]

verl's merger knows models, configurations and tied weights, and is used for them. It also rounds to bfloat16 as it
reads, which is coarser than what the micro model is served in, and writes the base model of a LoRA run without what was
trained, which it puts beside it. Here weights keep their precision until the end, and the adapter is merged.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Shard
from verl.model_merger.base_model_merger import ModelMergerConfig
from verl.model_merger.fsdp_model_merger import FSDPModelMerger, merge_non_dtensor_shards

from agentflow.rl.run.export import LORA_META

Weights = dict[str, torch.Tensor]


def whole(name: str, shards: Sequence[torch.Tensor]) -> torch.Tensor:
    """Join the shards of a parameter, in the order of ranks."""
    if not isinstance(shards[0], DTensor):
        full: torch.Tensor = merge_non_dtensor_shards(name, list(shards))
        return full
    placement = shards[0].placements[-1]  # of a mesh of replicas and shards, only the first replica is read
    parts = [shard._local_tensor for shard in shards if isinstance(shard, DTensor)]
    return torch.cat(parts, dim=placement.dim) if isinstance(placement, Shard) else parts[0]


def adapter_of(state: Mapping[str, torch.Tensor]) -> Weights:
    """Return the LoRA weights of a PEFT state dict, under their names in PEFT's files; empty without LoRA."""
    return {name.replace(".default.", "."): tensor for name, tensor in state.items() if ".lora_" in name}


def merged(state: Mapping[str, torch.Tensor], scale: float) -> Weights:
    """Convert a PEFT state dict to that of its base model, with every adapted W replaced by W + scale * B A.

    Raises ValueError if an adapter weight has no base weight that it can be merged into.
    """
    adapter = adapter_of(state)
    found: Weights = {}
    for name, tensor in state.items():
        if ".lora_" in name:
            continue
        module = name.removesuffix(".base_layer.weight")
        down, up = (adapter.pop(f"{module}.lora_{part}.weight", None) for part in "AB")
        if down is not None and up is not None:
            tensor = tensor.float() + scale * (up.float() @ down.float())
        found[name.removeprefix("base_model.model.").replace(".base_layer.", ".")] = tensor
    if adapter:
        raise ValueError(f"the adapter's {min(adapter)} has no weight that it can be merged into")
    return found


class Merger(FSDPModelMerger):  # type: ignore[misc]
    """verl's merger, modified to keep the precision of weights and to merge a LoRA adapter."""

    def __init__(self, config: ModelMergerConfig, dtype: torch.dtype, adapter: Path | None) -> None:
        super().__init__(config)
        self.dtype, self.adapter = dtype, adapter

    def _load_and_merge_state_dicts(self, world_size: int, total_shards: int, *mesh: Any) -> Weights:
        """Load the shards and return the full state dict of the model; called by verl."""
        actor = Path(self.config.local_dir)
        paths = [actor / f"model_world_size_{world_size}_rank_{rank}.pt" for rank in range(total_shards)]
        shards = [torch.load(path, map_location="cpu", mmap=True, weights_only=False) for path in paths]
        state = {name: whole(name, [shard[name] for shard in shards]) for name in shards[0]}
        if (actor / LORA_META).is_file():
            meta = json.loads((actor / LORA_META).read_text(encoding="utf-8"))
            if self.adapter:
                self._save_adapter(adapter_of(state), meta)
            state = merged(state, meta["lora_alpha"] / meta["r"])
        return {name: tensor.to(self.dtype).contiguous() for name, tensor in state.items()}

    def _save_adapter(self, adapter: Weights, meta: Mapping[str, Any]) -> None:
        from peft import LoraConfig
        from safetensors.torch import save_file

        assert self.adapter is not None
        targets = sorted({name.split(".")[-3] for name in adapter})
        config = LoraConfig(r=meta["r"], lora_alpha=meta["lora_alpha"], target_modules=targets, task_type="CAUSAL_LM")
        config.save_pretrained(str(self.adapter))
        save_file(
            {name: part.contiguous() for name, part in adapter.items()}, self.adapter / "adapter_model.safetensors"
        )


def main() -> None:
    """Merge one checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("actor", type=Path, help="the folder actor/ of a checkpoint")
    parser.add_argument("folder", type=Path, help="where the model goes")
    parser.add_argument("dtype", choices=["float32", "bfloat16"])
    parser.add_argument("--adapter", type=Path, help="where the adapter of a LoRA run goes")
    given = parser.parse_args()
    config = ModelMergerConfig(
        operation="merge",
        backend="fsdp",
        local_dir=str(given.actor),
        target_dir=str(given.folder),
        hf_model_config_path=str(given.actor / "huggingface"),
    )
    Merger(config, getattr(torch, given.dtype), given.adapter).merge_and_save()


if __name__ == "__main__":
    main()
