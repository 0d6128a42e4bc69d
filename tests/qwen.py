"""Tiny models with random weights, of the architectures that the presets for GPUs train, with their chat templates.

Their tokenizer is a byte-level BPE with Qwen's control tokens, trained on this project's own prompts and pages, since
Qwen's own is on a hub.
"""

from pathlib import Path
from typing import Any, Literal

from tests.chat_templates import TEMPLATES
from tests.pages import ROOT

Family = Literal["qwen2.5", "qwen3"]

GPU_PRESETS: dict[str, tuple[Family, bool, int]] = {
    "qwen2.5-7b": ("qwen2.5", False, 1),
    "qwen2.5-3b": ("qwen2.5", True, 1),
    "qwen2.5-7b-lora": ("qwen2.5", False, 1),
    "qwen3-8b": ("qwen3", False, 3),
    "qwen3-4b": ("qwen3", True, 3),
}
"""The family of a preset's model, whether its embeddings are tied, and the rows of a rollout of three turns."""

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
VOCABULARY = 4096
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "vocab_size": VOCABULARY,
}
SPREAD = 0.1
"""Standard deviation of the weights: their replies differ, and an update moves them."""

SERVED = 64
"""Most tokens of a reply that a server gives, whatever a request allows: random weights do not end their replies."""


def tiny_model(folder: Path, family: Family, *, tied: bool) -> Path:
    """Write a model of a family; `tied`: the input and output embeddings are one, as in the smaller models."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = _tokenizer(family)
    tokenizer.save_pretrained(folder)
    own = {"head_dim": 32} if family == "qwen3" else {}
    kind = {"qwen2.5": "qwen2", "qwen3": "qwen3"}[family]
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = AutoConfig.for_model(kind, **SHAPE, **own, **ids, tie_word_embeddings=tied, initializer_range=SPREAD)
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.generation_config.max_new_tokens = SERVED
    model.save_pretrained(folder)
    return folder


def _tokenizer(family: Family) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(ADDED),
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("nodes/*.py"), *ROOT.glob("tools/*.py")]
    raw.train([str(path) for path in sorted(files)], trainer)
    found = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=32768
    )
    found.add_tokens(ADDED)
    found.chat_template = (TEMPLATES / f"{family.replace('.', '_')}.jinja").read_text()
    return found
