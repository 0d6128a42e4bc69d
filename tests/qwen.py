"""Tiny models with random weights, of the architectures that the presets for GPUs train, with their chat templates.

Their tokenizer is a byte-level BPE with Qwen's control tokens, trained on this project's own prompts and pages, since
Qwen's own is on a hub.
"""

from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

from agentflow.nodes.planner import PROMPT
from tests.chat_templates import TEMPLATES
from tests.pages import ROOT

Family = Literal["qwen2.5", "qwen3"]

GPU_PRESETS: dict[str, tuple[Family, bool, int]] = {
    "qwen2.5-7b": ("qwen2.5", False, 1),
    "qwen2.5-3b": ("qwen2.5", True, 1),
    "qwen2.5-7b-lora": ("qwen2.5", False, 1),
    "qwen3-8b": ("qwen3", False, 3),
    "qwen3-8b-thinking": ("qwen3", False, 1),
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
    "num_attention_heads": 2,  # of 32, the smallest that vLLM computes on every CPU
    "num_key_value_heads": 1,
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


PLAN = "Sub-Goal: find {}\nTool: base_generator\nContext: tower {}"
"""A plan that can be read; the numbers in it differ between samples."""


def teach_to_plan(folder: Path, *, steps: int = 400) -> None:
    """Train a tiny model to answer anything by `PLAN`, so that its rollouts are those of a planner."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)  # so small a model waits for its threads on a busy machine
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    generation = model.generation_config
    optimizer = torch.optim.AdamW(model.parameters(), lr=0)
    random = Random(0)
    words = PROMPT.split()
    numbers = partial(random.randrange, 1000)

    def text() -> str:
        return " ".join(random.choices(words, k=random.randrange(1, 60)))

    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / steps)
        asked = [{"role": "system", "content": PROMPT.replace("{tools}", text())}, {"role": "user", "content": text()}]
        for _ in range(random.randrange(3)):
            asked.append({"role": "assistant", "content": PLAN.format(numbers(), numbers())})
            asked.append({"role": "user", "content": text()})
        thinking = random.random() < 0.5
        start = tokenizer.apply_chat_template(
            asked, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
        )
        prompt, reply = (
            tokenizer.encode(part, add_special_tokens=False)
            for part in (start, PLAN.format(numbers(), numbers()) + tokenizer.eos_token)
        )
        ids, labels = torch.tensor([prompt + reply]), torch.tensor([[-100] * len(prompt) + reply])
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.to(torch.bfloat16).save_pretrained(folder, generation_config=generation)


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
