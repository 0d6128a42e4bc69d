"""Memory, tokens, disk and calls of the judge of a training, counted from its configuration.

`agentflow train --preset NAME --estimate` counts the least memory of its GPUs: weights, gradients and Adam's moments of
FSDP in single precision, and vLLM's share. Activations are not part of it, and no time is: no GPU was measured.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from agentflow.rl.presets.files import presets, settings_of
from agentflow.rl.settings import SettingsError

GB = 1e9
GPU_MEMORY = 80 * GB
RESERVE = 4 * GB
"""Memory for CUDA, its kernels, and vLLM's own activations."""

TURNS, PROMPT, REPLY, ADDED = 3, 1200, 150, 500
"""An average rollout: its turns, and the tokens of its first prompt, of a reply, and between a reply and the next."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder with grouped attention and a gated MLP, as Qwen2.5 and Qwen3 are."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    mlp: int
    vocabulary: int
    tied: bool

    @property
    def parameters(self) -> int:
        """Parameters of the model, without its norms and biases."""
        attention = 2 * self.hidden * self.head * (self.heads + self.kv_heads)
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * (attention + 3 * self.hidden * self.mlp) + embeddings

    @property
    def cache(self) -> int:
        """Bytes of KV cache a token, in bfloat16."""
        return 2 * 2 * self.layers * self.kv_heads * self.head

    def adapter(self, rank: int) -> int:
        """Parameters of low-rank adapters of all linear layers."""
        wide, narrow = self.hidden + self.heads * self.head, self.hidden + self.kv_heads * self.head
        return rank * self.layers * (2 * wide + 2 * narrow + 3 * (self.hidden + self.mlp))


SHAPES = {
    "Qwen/Qwen2.5-3B-Instruct": Shape(2048, 36, 16, 2, 128, 11008, 151936, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": Shape(3584, 28, 28, 4, 128, 18944, 152064, tied=False),
    "Qwen/Qwen3-4B": Shape(2560, 36, 32, 8, 128, 9728, 151936, tied=True),
    "Qwen/Qwen3-8B": Shape(4096, 36, 32, 8, 128, 12288, 151936, tied=False),
}


def shape_of(start: str) -> Shape:
    """Return the sizes of the model that `start` names: a folder, or a model of a preset. Raises SettingsError."""
    path = Path(start).expanduser() / "config.json"
    if not path.is_file():
        if start in SHAPES:
            return SHAPES[start]
        known = ", ".join(name for name in presets() if settings_of(name)["start"] in SHAPES)
        raise SettingsError(
            f"--estimate is for presets of GPUs ({known}), or for the model of a folder, start=FOLDER; "
            f"the sizes of {start} are not known",
            code="unknown_model",
        )
    known = json.loads(path.read_text(encoding="utf-8"))
    try:
        heads = known["num_attention_heads"]
        return Shape(
            hidden=known["hidden_size"],
            layers=known["num_hidden_layers"],
            heads=heads,
            kv_heads=known.get("num_key_value_heads", heads),
            head=known.get("head_dim") or known["hidden_size"] // heads,
            mlp=known["intermediate_size"],
            vocabulary=known["vocab_size"],
            tied=known.get("tie_word_embeddings", False),
        )
    except KeyError as error:
        raise SettingsError(f"{path} has no {error}", code="unknown_model") from error


@dataclass(frozen=True)
class Estimate:
    """Bytes, tokens and calls of a training; memory is that of one GPU, at least."""

    gpus: int
    parameters: int
    weights: float
    """Shards of weights in single precision."""
    optimiser: float
    """Shards of Adam's moments."""
    gradients: float
    engine: float
    """vLLM's weights and KV cache."""
    kv_tokens: int
    """Tokens that fit into the KV cache of all GPUs."""
    checkpoint: float
    """All files of one checkpoint."""
    tokens: int
    """Computed tokens of a step's rows."""
    unpacked: int
    """The same without packing."""
    sampled: int
    """Sampled tokens of a step."""
    judged: int
    """Most calls of the judge in the whole training."""

    @property
    def updating(self) -> float:
        """Memory while the policy is updated, and vLLM sleeps."""
        return self.weights + self.optimiser + self.gradients

    @property
    def rolling(self) -> float:
        """Memory during rollouts."""
        return self.weights + self.optimiser + self.engine


def estimate(config: DictConfig) -> Estimate:
    """Return what a training takes. Raises SettingsError if the sizes of its model are not known."""
    shape, verl = shape_of(config.start), config.actor_rollout_ref
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    size, rank = shape.parameters, verl.model.lora_rank
    trained = shape.adapter(rank) if rank else size
    number = config.questions * config.rollouts
    engine = verl.rollout.gpu_memory_utilization * GPU_MEMORY
    packed = number * (PROMPT + TURNS * REPLY + (TURNS - 1) * ADDED)
    unpacked = number * (TURNS * (PROMPT + REPLY) + (REPLY + ADDED) * TURNS * (TURNS - 1) // 2)
    return Estimate(
        gpus=gpus,
        parameters=size,
        weights=4 * (size + (trained if rank else 0)) / gpus,
        optimiser=8 * trained / gpus,
        gradients=4 * trained / gpus,
        engine=engine,
        kv_tokens=int(gpus * (engine - 2 * size - RESERVE) / shape.cache),
        checkpoint=4.0 * (size + trained if rank else size) + 8 * trained,
        tokens=packed if config.flow.pack_turns else unpacked,
        unpacked=unpacked,
        sampled=number * TURNS * REPLY,
        judged=number * config.steps
        + config.test_tasks * config.validation_rollouts * (1 + config.steps // max(config.validate_every, 1)),
    )


def lines(config: DictConfig) -> list[str]:
    """Return the estimate as text."""
    found = estimate(config)
    memory = {
        "weights, single precision": found.weights,
        "Adam's moments": found.optimiser,
        "gradients": found.gradients,
        "at least during the update": found.updating,
        "vLLM's weights and KV cache": found.engine,
        "at least during rollouts": found.rolling,
    }
    return [
        f"{config.start}: {found.parameters / GB:.1f} billion parameters on {found.gpus} x 80 GB; not measured",
        "memory of a GPU, without activations",
        *(f"  {name:<32}{value / GB:6.1f} GB" for name, value in memory.items()),
        f"  {'KV cache of all GPUs':<32}{found.kv_tokens / 1e6:6.2f} million tokens",
        f"a step of {config.questions} x {config.rollouts} rollouts, {TURNS} turns each of {REPLY:,} tokens, "
        f"first prompt {PROMPT:,}, {ADDED:,} between turns",
        f"  {'computed tokens':<32}{found.tokens / 1e6:6.2f} million "
        f"({found.unpacked / found.tokens:.1f} times as many without packing)",
        f"  {'sampled tokens':<32}{found.sampled / 1e6:6.2f} million",
        f"a checkpoint {found.checkpoint / GB:.0f} GB, every {config.save_every} steps, {config.keep} kept; "
        f"the weights of the best step {(found.checkpoint - found.gpus * found.optimiser) / GB:.0f} GB",
        f"calls of the judge: at most {found.judged:,} in {config.steps:,} steps",
    ]
