"""Forward pass of a Qwen2-architecture language model in numpy (Qwen2 technical report, arXiv:2407.10671).

Few, large matrix products make it fast on one core: query, key and value share one matrix, gate and up another. Linear
factors are folded into the weights at load time: the RMSNorm gains, the attention scale, and the order of the head
dimensions, which places the two halves of a rotary pair side by side so that a rotation is one complex product.

A token's logits are bitwise identical alone or in a batch, prefilled or decoded. Matrix products use only shapes whose
results do not depend on the row (see `products`), attention uses blocks of a fixed size, and all other sums run along
one token's values.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from agentflow.rl.micro.kv_cache import BLOCK, Floats, Ints, KVCache, whole_blocks
from agentflow.rl.micro.products import Matrix, fit_together, products_for

CHUNK = 128
"""Number of prompt tokens computed at a time; bounds the memory of attention scores."""

Weights = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class MicroConfig:
    """The part of a Hugging Face `config.json` that inference needs."""

    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ff_size: int
    positions: int
    rope_theta: float
    rms_norm_eps: float
    tied: bool

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "MicroConfig":
        """Parse a config of transformers 4 or 5. Raises ValueError for an unsupported architecture."""
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        unsupported = {
            "model_type": config.get("model_type") != "qwen2",
            "hidden_act": config.get("hidden_act", "silu") != "silu",
            "use_sliding_window": bool(config.get("use_sliding_window")),
            "rope_type": rope.get("rope_type", rope.get("type", "default")) != "default",
        }
        if any(unsupported.values()):
            wrong = ", ".join(key for key, value in unsupported.items() if value)
            raise ValueError(f"config.json: {wrong} is not that of a plain Qwen2 model")
        try:
            heads = int(config["num_attention_heads"])
            return cls(
                vocab_size=int(config["vocab_size"]),
                hidden_size=int(config["hidden_size"]),
                layers=int(config["num_hidden_layers"]),
                heads=heads,
                kv_heads=int(config.get("num_key_value_heads") or heads),
                head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
                ff_size=int(config["intermediate_size"]),
                positions=int(config["max_position_embeddings"]),
                rope_theta=float(config.get("rope_theta") or rope.get("rope_theta", 10000.0)),
                rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
                tied=bool(config.get("tie_word_embeddings", False)),
            )
        except KeyError as error:
            raise ValueError(f"config.json lacks {error}") from error


@dataclass(frozen=True)
class Layer:
    """Weights of one transformer block, folded and transposed for row vectors."""

    qkv: Matrix
    qkv_bias: Floats
    out: Matrix
    gate_up: Matrix
    down: Matrix


class MicroModel:
    """A loaded model. It is immutable; the state of sequences is in the KVCache that the caller passes."""

    def __init__(self, config: MicroConfig, weights: Weights) -> None:
        """`weights` have Hugging Face names as keys. Raises ValueError if one is missing or has the wrong shape."""
        take = partial(_tensor, weights)
        hidden = config.hidden_size
        self.config = config
        self._products = products_for(_shapes(config))
        cut = self._products.layout.cut
        self._embedding = take("model.embed_tokens.weight", config.vocab_size, hidden)
        self._layers = [_layer(config, take, f"model.layers.{i}.", cut) for i in range(config.layers)]
        head = self._embedding if config.tied else take("lm_head.weight", config.vocab_size, hidden)
        self._head = cut(head * take("model.norm.weight", hidden))
        self._rotation = _rotation(config)

    @classmethod
    def load(cls, directory: str | Path) -> "MicroModel":
        """Read `config.json` and `model.safetensors` (float16 or float32).

        Raises OSError if a file is missing, ValueError if one is invalid.
        """
        directory = Path(directory)
        config = MicroConfig.parse(json.loads((directory / "config.json").read_text(encoding="utf-8")))
        try:
            weights = load_file(directory / "model.safetensors")
        except (SafetensorError, KeyError, TypeError) as error:  # the latter two: a dtype that numpy lacks
            raise ValueError(f"model.safetensors cannot be read as float16 or float32: {error}") from error
        return cls(config, weights)

    def new_cache(self) -> KVCache:
        """Return an empty cache of this model's shape."""
        return KVCache(self.config.layers, self.config.kv_heads, self.config.head_dim)

    def prefill(self, cache: KVCache, slot: int, ids: list[int], start: int) -> Floats:
        """Append `ids` to the sequence in `slot`, which has `start` cached tokens. Return the last logits [vocab]."""
        cache.reserve(slot + 1, start + len(ids))
        for begin in range(0, len(ids), CHUNK):
            chunk = np.array(ids[begin : begin + CHUNK])
            positions = np.arange(start + begin, start + begin + len(chunk))
            hidden = self._forward(cache, chunk, slice(slot, slot + 1), positions)
        logits: Floats = self._logits(hidden[[len(chunk) - 1] * self._products.height(1)])[0]
        return logits

    def step(self, cache: KVCache, ids: Ints, positions: Ints, first: int = 0) -> Floats:
        """Append one token to each sequence in slots first..first+n-1, at `positions` [n]. Return logits [n, vocab].

        Other threads may process other slots concurrently if `cache` has room reserved for all of them.
        """
        n = len(ids)
        cache.reserve(first + n, int(positions.max()) + 1)
        return self._logits(self._forward(cache, ids, slice(first, first + n), positions))[:n]

    def _forward(self, cache: KVCache, ids: Ints, slots: slice, positions: Ints) -> Floats:
        """Compute hidden states [height, hidden], of which the first n rows are the tokens; the others are padding.

        The tokens are all of one slot, or one of each slot.
        """
        config, n = self.config, len(ids)
        product = self._products.product
        turned = (config.heads + config.kv_heads) * config.head_dim
        rotation = np.tile(self._rotation[positions], config.heads + config.kv_heads)
        end = whole_blocks(int(positions.max()) + 1)
        mask = _mask(positions, slots.stop - slots.start, end)
        x: Floats = np.ones((self._products.height(n), config.hidden_size), np.float32)
        x[:n] = self._embedding[ids]
        mixed: Floats = np.zeros((len(x), config.heads * config.head_dim), np.float32)
        for index, layer in enumerate(self._layers):
            qkv = product(_normed(x, config.rms_norm_eps), layer.qkv)
            qkv += layer.qkv_bias
            qkv[:n, :turned].view(np.complex64)[...] *= rotation
            heads = qkv[:n].reshape(n, -1, config.head_dim)
            values_from = config.heads + config.kv_heads
            cache.write(index, slots, positions, heads[:, config.heads : values_from], heads[:, values_from:])
            mixed[:n] = _attend(heads[:, : config.heads], *cache.read(index, slots, end), mask)
            x += product(mixed, layer.out)
            x += product(_swiglu(product(_normed(x, config.rms_norm_eps), layer.gate_up)), layer.down)
        return x

    def _logits(self, hidden: Floats) -> Floats:
        return self._products.product(_normed(hidden, self.config.rms_norm_eps), self._head)


def _mask(positions: Ints, slots: int, end: int) -> Floats:
    """Return the attention mask, 0 for visible positions and -inf elsewhere.

    Its shape is [slot, 1, block, token of the slot, 1, position of the block]. It covers the blocks up to `end`, from
    the first block that is not fully visible to every token.
    """
    seen = np.arange((int(positions.min()) + 1) // BLOCK * BLOCK, end) <= positions[:, None]
    mask = np.where(seen, np.float32(0), np.float32(-np.inf)).reshape(
        slots, len(positions) // slots, seen.shape[1] // BLOCK, BLOCK
    )
    return mask.swapaxes(1, 2)[:, None, :, :, None]


def _attend(queries: Floats, keys: Floats, values: Floats, mask: Floats) -> Floats:
    """Compute softmax attention of n tokens, the same number in each slot.

    queries [n, head, dim], keys [slot, KV head, dim, position], values [slot, KV head, position, dim],
    mask [slot, 1, last blocks, token, 1, position]; returns [n, head * dim]. Every product covers one block. Sums run
    within a block first and then over the blocks in order, so that empty blocks after a sequence change no bits.
    """
    n, heads, dim = queries.shape
    slots, kv_heads, _, end = keys.shape
    tokens, group, blocks = n // slots, heads // kv_heads, end // BLOCK
    # [slot, KV head, block, product, query, ...]: all tokens share one product if that does not change the bits.
    products = 1 if fit_together(group, dim, tokens) else tokens
    rows = queries.reshape(slots, tokens, kv_heads, group, dim).swapaxes(1, 2)
    rows = rows.reshape(slots, kv_heads, 1, products, -1, dim)
    keys = keys.reshape(slots, kv_heads, dim, blocks, BLOCK).swapaxes(2, 3)[:, :, :, None]
    values = values.reshape(slots, kv_heads, blocks, 1, BLOCK, dim)
    scores: Floats = rows @ keys
    by_token = scores.reshape(slots, kv_heads, blocks, tokens, group, BLOCK)
    by_token[:, :, blocks - mask.shape[2] :] += mask
    by_token -= np.maximum.reduce(np.maximum.reduce(by_token, axis=-1, keepdims=True), axis=2, keepdims=True)
    np.exp(scores, out=scores)
    gathered: Floats = np.add.reduce(scores @ values, axis=2)
    # `accumulate` and not `reduce`, which adds eight or more blocks in another order along a nearly contiguous axis.
    gathered /= np.add.accumulate(np.add.reduce(scores, axis=-1, keepdims=True), axis=2)[:, :, -1]
    return gathered.reshape(slots, kv_heads, tokens, group, dim).swapaxes(1, 2).reshape(n, -1)


def _normed(x: Floats, eps: float) -> Floats:
    """Apply RMSNorm without its gains, which are folded into the next matrix."""
    square: Floats = np.add.reduce(np.square(x), axis=1, keepdims=True)
    square /= x.shape[1]
    square += eps
    np.sqrt(square, out=square)
    normed: Floats = x / square
    return normed


def _swiglu(gate_up: Floats) -> Floats:
    half = gate_up.shape[1] // 2
    gate, up = gate_up[:, :half], gate_up[:, half:]
    activation: Floats = np.negative(gate)
    with np.errstate(over="ignore"):  # exp may overflow to inf, and gate / inf is correctly 0
        np.exp(activation, out=activation)
    activation += 1
    np.divide(gate, activation, out=activation)
    activation *= up
    return activation


def _tensor(weights: Weights, name: str, *shape: int) -> Floats:
    """Return a tensor of the checkpoint. Raises ValueError if it is missing or has another shape."""
    if name not in weights:
        raise ValueError(f"model.safetensors lacks {name}")
    tensor = weights[name]
    if tensor.shape != shape:
        raise ValueError(f"model.safetensors: {name} has shape {tensor.shape}, config.json says {shape}")
    return tensor.astype(np.float32)


def _shapes(config: MicroConfig) -> frozenset[tuple[int, int]]:
    """Return the shapes (out, in) of a layer's matrices and of the head."""
    hidden, ff, heads = config.hidden_size, config.ff_size, config.heads * config.head_dim
    qkv = heads + 2 * config.kv_heads * config.head_dim
    return frozenset({(qkv, hidden), (hidden, heads), (2 * ff, hidden), (hidden, ff), (config.vocab_size, hidden)})


def _layer(config: MicroConfig, take: Callable[..., Floats], prefix: str, cut: Callable[[Floats], Matrix]) -> Layer:
    hidden, ff = config.hidden_size, config.ff_size
    weights, biases = [], []
    for name, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads)):
        width = heads * config.head_dim
        weight = take(f"{prefix}self_attn.{name}_proj.weight", width, hidden)
        bias = take(f"{prefix}self_attn.{name}_proj.bias", width)
        if name != "v":
            weight, bias = _interleaved(weight, config.head_dim), _interleaved(bias, config.head_dim)
        scale = np.float32(config.head_dim**-0.5 if name == "q" else 1)
        weights.append(weight * scale)
        biases.append(bias * scale)
    gate_up = [take(f"{prefix}mlp.{name}_proj.weight", ff, hidden) for name in ("gate", "up")]
    return Layer(
        qkv=cut(np.concatenate(weights) * take(f"{prefix}input_layernorm.weight", hidden)),
        qkv_bias=np.concatenate(biases),
        out=cut(take(f"{prefix}self_attn.o_proj.weight", hidden, config.heads * config.head_dim)),
        gate_up=cut(np.concatenate(gate_up) * take(f"{prefix}post_attention_layernorm.weight", hidden)),
        down=cut(take(f"{prefix}mlp.down_proj.weight", hidden, ff)),
    )


def _interleaved(tensor: Floats, head_dim: int) -> Floats:
    """Reorder the rows of each head from (first half, second half) to alternating pairs."""
    halves = tensor.reshape(-1, 2, head_dim // 2, *tensor.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(tensor.shape)


def _rotation(config: MicroConfig) -> npt.NDArray[np.complex64]:
    """Return the unit complex numbers [position, head_dim / 2] of rotary embedding (RoFormer, arXiv:2104.09864)."""
    exponent = np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim)
    frequency = np.float32(1) / np.float32(config.rope_theta) ** exponent
    angle = np.arange(config.positions, dtype=np.float32)[:, None] * frequency
    return np.exp(1j * angle).astype(np.complex64)
