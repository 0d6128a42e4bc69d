"""A tiny random checkpoint with Hugging Face's names, made without torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from agentflow.rl.micro.tokenizer import MicroTokenizer
from recipes.micro.vocabulary import train

CONFIG: dict[str, Any] = json.loads((Path(__file__).parent / "cases/config.json").read_text())
VOCABULARY, POSITIONS = CONFIG["vocab_size"], CONFIG["max_position_embeddings"]


def weights(config: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Random weights, large enough for the most probable token to differ from one context to the next."""
    rng = np.random.default_rng(seed)
    hidden, ff, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name, width in (("q", q), ("k", kv), ("v", kv)):
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (width, hidden)
            shapes[f"{layer}self_attn.{name}_proj.bias"] = (width,)
        shapes[f"{layer}self_attn.o_proj.weight"] = (hidden, q)
        shapes[f"{layer}mlp.gate_proj.weight"] = shapes[f"{layer}mlp.up_proj.weight"] = (ff, hidden)
        shapes[f"{layer}mlp.down_proj.weight"] = (hidden, ff)
        shapes[f"{layer}input_layernorm.weight"] = shapes[f"{layer}post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    made = {name: rng.standard_normal(shape).astype(np.float32) * 0.2 for name, shape in shapes.items()}
    return {name: tensor + 1 if "norm" in name else tensor for name, tensor in made.items()}


def write(directory: Path, **changes: Any) -> Path:
    """Write the checkpoint, with `changes` of its configuration."""
    config = {**CONFIG, **changes}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(weights(config), directory / "model.safetensors", metadata={"format": "pt"})
    texts = ["The mayor of Marlow is Tessa Quill, and the population is 20500."] * 20
    MicroTokenizer(train(texts, VOCABULARY)).save(directory)
    return directory
