"""Memory and time of a training on GPUs, computed from its configuration: `agentflow train --preset NAME --estimate`.

Nothing here was measured on a GPU. The memory is counted: weights, gradients and Adam's moments of FSDP in single
precision, the layers that are whole while they are computed, activations with gradient checkpointing, and vLLM's share.
The time divides counted operations and bytes by the speeds of a GPU that `Speed` states. Tools, frozen modules and a
judge are not part of it: a step takes at least as long as they take for one rollout.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from agentflow.rl.preset_files import presets, settings_of
from agentflow.rl.settings import SettingsError

GB = 1e9
CHUNK = 512
"""Tokens whose logits verl's fused kernels hold at a time."""


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
    def layer(self) -> int:
        """Parameters of a layer, without its norms and biases."""
        attention = 2 * self.hidden * self.head * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.mlp

    @property
    def embeddings(self) -> int:
        """Parameters of the input and output embeddings."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return self.layers * self.layer + self.embeddings

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


@dataclass(frozen=True)
class Speed:
    """An H100 of 80 GB, with the shares of its peak that are assumed."""

    memory: float = 80 * GB
    operations: float = 0.4 * 989e12
    """A second, in bfloat16."""
    bandwidth: float = 0.6 * 3.35e12
    """Bytes a second."""
    reserve: float = 4 * GB
    """Memory for CUDA, its kernels, and vLLM's own activations."""


@dataclass(frozen=True)
class Rollouts:
    """Tokens of an average rollout."""

    turns: int = 3
    prompt: int = 1200
    """The first turn's prompt."""
    reply: int = 150
    added: int = 500
    """Between a reply and the next: a tool's result, the verdict, and the template's marks."""

    @property
    def row(self) -> int:
        """Tokens of a rollout whose turns share a row."""
        return self.prompt + self.turns * self.reply + (self.turns - 1) * self.added

    @property
    def rows(self) -> int:
        """Tokens of a rollout whose every turn is a row."""
        grown = (self.reply + self.added) * self.turns * (self.turns - 1) // 2
        return self.turns * (self.prompt + self.reply) + grown


@dataclass(frozen=True)
class Estimate:
    """Bytes, tokens and seconds of a training; memory is that of one GPU."""

    gpus: int
    parameters: int
    weights: float
    """Shards of weights in single precision."""
    optimiser: float
    """Shards of Adam's moments."""
    gradients: float
    whole: float
    """Two layers and the embeddings in bfloat16, while they are computed."""
    activations: float
    """Activations of the longest row."""
    logits: float
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
    sampling: float
    log_probs: float
    """Seconds of the passes of the policy and of the reference, if there is one."""
    update: float
    judged: int
    """Most calls of the judge in the whole training."""

    @property
    def updating(self) -> float:
        """Memory while the policy is updated, and vLLM sleeps."""
        return self.weights + self.optimiser + self.gradients + self.whole + self.activations + self.logits

    @property
    def rolling(self) -> float:
        """Memory during rollouts."""
        return self.weights + self.optimiser + self.engine

    @property
    def step(self) -> float:
        """Seconds of a step that the policy takes."""
        return self.sampling + self.log_probs + self.update


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


def estimate(config: DictConfig, speed: Speed = Speed(), rollouts: Rollouts = Rollouts()) -> Estimate:
    """Return the memory and time of a training. Raises SettingsError if the sizes of its model are not known."""
    shape, verl = shape_of(config.start), config.actor_rollout_ref
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    size, rank = shape.parameters, verl.model.lora_rank
    trained = shape.adapter(rank) if rank else size
    longest, number = config.prompt_tokens + config.response_tokens, config.questions * config.rollouts
    engine = verl.rollout.gpu_memory_utilization * speed.memory
    kv_tokens = int(gpus * (engine - 2 * size - speed.reserve) / shape.cache)
    packed, unpacked = number * rollouts.row, number * rollouts.rows
    tokens = packed if config.flow.pack_turns else unpacked
    passes = 1 + bool(verl.actor.use_kl_loss)
    return Estimate(
        gpus=gpus,
        parameters=size,
        weights=4 * (size + (trained if rank else 0)) / gpus,
        optimiser=8 * trained / gpus,
        gradients=4 * trained / gpus,
        whole=2 * (2 * shape.layer + shape.embeddings),
        activations=2 * longest * (shape.layers * shape.hidden + 6 * shape.hidden + 4 * shape.mlp),
        logits=CHUNK * shape.vocabulary * 18,
        engine=engine,
        kv_tokens=kv_tokens,
        checkpoint=4.0 * (size + trained if rank else size) + 8 * trained,
        tokens=tokens,
        unpacked=unpacked,
        sampled=number * rollouts.turns * rollouts.reply,
        sampling=_sampling(shape, speed, rollouts, number / gpus, kv_tokens / gpus),
        log_probs=passes * 2 * size * tokens / gpus / speed.operations,
        # Forward, forward again for the checkpoints, and twice that backward, half of it without gradients of weights.
        update=(6 if rank else 8) * size * tokens / gpus / speed.operations,
        judged=number * config.steps
        + config.test_tasks * config.validation_rollouts * (1 + config.steps // max(config.validate_every, 1)),
    )


def _sampling(shape: Shape, speed: Speed, rollouts: Rollouts, number: float, room: float) -> float:
    """Return the seconds in which one GPU samples `number` rollouts, its KV cache having `room` tokens.

    A token of every running rollout costs a pass over the weights and over their caches; prompts cost operations.
    """
    running = max(1.0, min(number, room / rollouts.row))
    passes = rollouts.turns * rollouts.reply * number / running
    read = 2 * shape.parameters + running * rollouts.row * shape.cache
    prompts = 2 * shape.parameters * number * (rollouts.row - rollouts.turns * rollouts.reply)
    return passes * read / speed.bandwidth + prompts / speed.operations


def lines(config: DictConfig) -> list[str]:
    """Return the estimate as text."""
    assumed, speed = Rollouts(), Speed()
    found = estimate(config, speed, assumed)
    memory = {
        "weights, single precision": found.weights,
        "Adam's moments": found.optimiser,
        "gradients": found.gradients,
        "whole layers, bfloat16": found.whole,
        "activations of the longest row": found.activations,
        "logits": found.logits,
        "most during the update": found.updating,
        "vLLM's weights and KV cache": found.engine,
        "most during rollouts": found.rolling,
    }
    seconds = {
        "sampling": (found.sampling, found.sampled),
        "log-probabilities": (found.log_probs, found.tokens),
        "update": (found.update, found.tokens),
    }
    share = found.unpacked / found.tokens
    return [
        f"{config.start}: {found.parameters / GB:.1f} billion parameters on {found.gpus} x 80 GB; "
        "computed, not measured",
        "memory of a GPU",
        *(f"  {name:<32}{value / GB:6.1f} GB" for name, value in memory.items()),
        f"  {'KV cache of all GPUs':<32}{found.kv_tokens / 1e6:6.2f} million tokens",
        f"a step of {config.questions} x {config.rollouts} rollouts, {assumed.turns} turns each of {assumed.reply:,} "
        f"tokens, first prompt {assumed.prompt:,}, {assumed.added:,} between turns",
        f"  {'computed tokens':<32}{found.tokens / 1e6:6.2f} million ({share:.1f} times as many without packing)",
        *(f"  {name:<32}{value:6.0f} s, {tokens / value:,.0f} tokens/s" for name, (value, tokens) in seconds.items()),
        f"  {'together':<32}{found.step:6.0f} s, and the time of tools, frozen modules and judge",
        f"a checkpoint {found.checkpoint / GB:.0f} GB, every {config.save_every} steps, {config.keep} kept; "
        f"the weights of the best step {(found.checkpoint - found.gpus * found.optimiser) / GB:.0f} GB",
        f"calls of the judge: at most {found.judged:,} in {config.steps:,} steps",
    ]
