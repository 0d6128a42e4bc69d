"""Memory, tokens, disk and model calls of a training, counted from its configuration and held beside this machine.

`agentflow train --preset NAME --estimate` counts the least memory of its GPUs: weights, gradients and Adam's moments of
FSDP in single precision, a frozen base as `lora_precision` keeps it, and vLLM's share. Activations are not part of it,
and no time is: no GPU was measured. On a CPU, it counts the memory of both together, since vLLM does not sleep there.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from agentflow.graph.models.connections import ROLLOUT_HOST
from agentflow.rl.launch.engine_config import concurrency, environment
from agentflow.rl.presets.files import presets, settings_of
from agentflow.rl.settings import SettingsError

GB = 1e9
GPU_MEMORY = 80 * GB
RESERVE = 4 * GB
"""Memory for CUDA, its kernels, and vLLM's own activations."""

TURNS, PROMPT, REPLY, ADDED = 3, 1200, 150, 500
"""An average rollout: its turns, and the tokens of its first prompt, of a reply, and between a reply and the next."""


FROZEN_CALLS = 2 + 2 * TURNS
"""Calls of modules that do not learn in such a rollout: analyst, generator, and executor and verifier in each turn."""
RATE = 600
"""Calls a minute of an endpoint, for an idea of what they take."""


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
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": Shape(896, 24, 14, 2, 64, 4864, 151936, tied=True),
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
            f"--estimate is for the presets {known}, or for the model of a folder, start=FOLDER; "
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
    """The memory, disk and model calls that a training needs. Memory is a lower bound for one GPU."""

    gpus: int
    memory: dict[str, float]
    """Bytes by use: while the policy is updated and vLLM sleeps, and during rollouts."""
    kv_tokens: int
    """Tokens that fit into the KV cache of all GPUs."""
    checkpoint: float
    """Bytes of all files of one checkpoint."""
    disk: float
    """Bytes of all checkpoints at once, the best step's weights and one that is being written included."""
    lines: list[str]
    """The estimate as text."""


UPDATING, ROLLING = "at least during the update", "at least during rollouts"


def estimate(config: DictConfig) -> Estimate:
    """Return what a training takes. Raises SettingsError if the sizes of its model are not known."""
    shape, verl = shape_of(config.start), config.actor_rollout_ref
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    size, rank = shape.parameters, verl.model.lora_rank
    trained = shape.adapter(rank) if rank else size
    precision = OmegaConf.select(verl, "actor.fsdp_config.mixed_precision.param_dtype")
    base = size * (4.0 if precision == "fp32" else 2.0) if rank else 0.0
    best = base + 4.0 * trained  # what the checkpoint of the best step holds: all weights
    weights, moments = best / gpus, 8 * trained / gpus
    cpu, width = config.trainer.device == "cpu", 4 if verl.rollout.dtype == "float32" else 2
    room = float(environment(config).get("VLLM_CPU_KVCACHE_SPACE", 0)) * 2**30
    engine = width * size + room if cpu else verl.rollout.gpu_memory_utilization * GPU_MEMORY
    memory = {
        "weights": weights,
        "Adam's moments": moments,
        "gradients": 4 * trained / gpus,
        UPDATING: weights + moments + 4 * trained / gpus + (engine if cpu else 0),
        "vLLM's weights and KV cache": engine,
        ROLLING: weights + moments + engine,
    }
    kv_tokens = int(room / (shape.cache * width / 2) if cpu else gpus * (engine - 2 * size - RESERVE) / shape.cache)
    number = config.questions * config.rollouts
    prompts = config.questions if cpu else number
    packed = prompts * PROMPT + number * (TURNS * REPLY + (TURNS - 1) * ADDED)
    unpacked = number * (TURNS * (PROMPT + REPLY) + (REPLY + ADDED) * TURNS * (TURNS - 1) // 2)
    tokens = packed if config.flow.pack_turns or cpu else unpacked
    shared = "a first prompt once" if cpu else f"{unpacked / tokens:.1f} times as many without packing"
    validations = 1 + config.steps // max(config.validate_every, 1)
    judged = number * config.steps + config.test_tasks * config.validation_rollouts * validations
    lines = [
        f"{config.start}: {size / GB:.1f} billion parameters on {'a CPU' if cpu else f'{gpus} x 80 GB'}; not measured",
        f"memory of {'all processes' if cpu else 'a GPU'}, without activations",
        *(f"  {name:<32}{value / GB:6.1f} GB" for name, value in memory.items()),
        f"  {'KV cache' if cpu else 'KV cache of all GPUs':<32}{kv_tokens / 1e6:6.2f} million tokens",
        f"a step of {config.questions} x {config.rollouts} rollouts, {TURNS} turns each of {REPLY:,} tokens, "
        f"first prompt {PROMPT:,}, {ADDED:,} between turns",
        f"  {'computed tokens':<32}{tokens / 1e6:6.2f} million ({shared})",
        f"  {'sampled tokens':<32}{number * TURNS * REPLY / 1e6:6.2f} million",
        f"a checkpoint {(best + 8 * trained) / GB:.0f} GB, every {config.save_every} steps, {config.keep} kept; "
        f"the weights of the best step {best / GB:.0f} GB",
    ]
    longest, workers = config.prompt_tokens + config.response_tokens, verl.rollout.agent.num_workers
    fits = f"the KV cache has room for {kv_tokens // longest:,} of {longest:,} tokens"
    lines.append(f"rollouts at once: {min(number, concurrency(config) * workers):,}; {fits}")
    if frozen_model := config.options.get("frozen"):
        asked, own = number * FROZEN_CALLS, f"@http://{ROLLOUT_HOST}/" in frozen_model
        pace = f"which at {RATE} a minute take {asked / RATE:.1f} minutes a step"
        pace = f"on the same engine as {number * TURNS:,} of the policy" if own else pace
        total = f"{asked:,} a step, about {asked * config.steps:,} in {config.steps:,} steps"
        lines.append(f"calls of the frozen modules: {FROZEN_CALLS} a rollout, {total}, {pace}")
    if config.options.get("judge"):
        lines.append(f"calls of the judge: at most {judged:,} in {config.steps:,} steps")
    checkpoint = best + 8 * trained
    return Estimate(gpus, memory, kv_tokens, checkpoint, (config.keep + 1) * checkpoint + best, lines)


def beside_machine(config: DictConfig, found: Estimate) -> list[str]:
    """Return what this machine has of what a training takes: disk, and GPUs or memory, a line each."""
    needed = max(found.memory[UPDATING], found.memory[ROLLING])
    out = Path(config.out).absolute()
    there = next(folder for folder in (out, *out.parents) if folder.is_dir())
    disk = f"{found.disk / GB:.0f} GB with a checkpoint that is being written"
    lines = [f"disk: {disk}; {shutil.disk_usage(there).free / GB:.0f} GB are free here"]
    if config.trainer.device == "cpu":
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return [*lines, f"memory: at least {needed / GB:.1f} GB; this machine has {here / GB:.1f} GB"]
    wanted, gpus = f"GPUs: {found.gpus} with at least {needed / GB:.0f} GB", gpus_here()
    if not gpus:
        return [*lines, f"{wanted}; none was found here"]
    least = min(memory for _, memory in gpus) * 2**20
    return [*lines, f"{wanted}; here are {len(gpus)} {gpus[0][0]} with {least / GB:.0f} GB"]


def gpus_here() -> list[tuple[str, int]]:
    """Return name and MiB of memory of each NVIDIA GPU that nvidia-smi lists."""
    if not (command := shutil.which("nvidia-smi")):
        return []
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    rows = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()  # noqa: S603
    split = (row.rpartition(", ") for row in rows)
    return [(name, int(memory)) for name, _, memory in split if memory.strip().isdigit()]
