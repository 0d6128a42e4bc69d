"""Tensors and models for tests of the trainer."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM


def nested(rows: Sequence[Sequence[float]], dtype: torch.dtype | None = None) -> Any:
    """Rows of different lengths, as in verl's batches."""
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=dtype) for row in rows], layout=torch.jagged)


def tiny(vocabulary: int, **changes: Any) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        **heads,
        "attn_implementation": "sdpa",
        **changes,
    }
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=vocabulary, **shape))
