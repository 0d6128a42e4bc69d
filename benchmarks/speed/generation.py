"""One way to generate with the embedded model's weights, in its own process; prints a line of JSON.

    python -m benchmarks.speed.generation ours

64 prompts of 128 tokens without a common prefix, 64 tokens sampled for each at temperature 1, also after an end token;
other prompts run first as warm-up. Ours is the engine. The peer is transformers' `generate` with its cache, on the same
weights in float32. The floor is the time of the matrix products of the same shapes in numpy, without attention, norms
or sampling.
"""

import json
import time
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import typer

from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroConfig, MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer

BATCH, PROMPT, REPLY = 64, 128, 64
CORES = 2


Generate = Callable[[int], int]
"""Generates for the prompts of a round, and returns the number of sampled tokens."""


def prompts(vocabulary: int, round: int) -> list[list[int]]:
    """Return the prompts of a round, which consist of ordinary tokens and are the same at every call."""
    ids = np.random.default_rng(round).integers(vocabulary // 2, vocabulary - 64, (BATCH, PROMPT))
    return [[int(one) for one in row] for row in ids]


def ours(reply: int) -> Generate:
    """Return the engine's function."""
    tokenizer = MicroTokenizer.load(SEED)
    tokenizer.special_ids = frozenset()  # no token ends a reply
    engine = Engine(MicroModel.load(SEED), tokenizer)

    def generate(round: int) -> int:
        texts = prompts(tokenizer.vocab_size, round)
        futures = [engine.submit(ids, seed=seed, temperature=1.0, max_tokens=reply) for seed, ids in enumerate(texts)]
        return sum(len(future.result().token_ids) for future in futures)

    return generate


def transformers(reply: int) -> Generate:
    """Return the function of transformers' `generate`."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(CORES)
    model = AutoModelForCausalLM.from_pretrained(SEED, dtype=torch.float32)

    def generate(round: int) -> int:
        ids = torch.tensor(prompts(model.config.vocab_size, round))
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=reply,
            min_new_tokens=reply,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            pad_token_id=0,
        )
        return int(made[:, PROMPT:].numel())

    return generate


def products(reply: int) -> Generate:
    """Return the matrix products of all layers: of each prompt, then of the batch for each further token."""
    config = MicroConfig.parse(json.loads((SEED / "config.json").read_text(encoding="utf-8")))
    chance = np.random.default_rng(0)
    hidden, heads = config.hidden_size, (config.heads + 2 * config.kv_heads) * config.head_dim
    shapes = [
        (hidden, heads),
        (config.heads * config.head_dim, hidden),
        (hidden, 2 * config.ff_size),
        (config.ff_size, hidden),
    ]
    matrices = [chance.random(shape, np.float32) for shape in shapes]
    head = chance.random((hidden, config.vocab_size), np.float32)

    widest = chance.random((max(PROMPT, BATCH), max(len(matrix) for matrix in matrices)), np.float32)

    def forward(tokens: int, ends: int) -> None:
        for matrix in matrices:
            given = widest[:tokens, : len(matrix)]
            for _ in range(config.layers):
                given @ matrix
        widest[:ends, :hidden] @ head

    def generate(round: int) -> int:
        for _ in range(BATCH):
            forward(PROMPT, 1)
        for _ in range(reply - 1):
            forward(BATCH, BATCH)
        return BATCH * reply

    return generate


WAYS = {one.__name__: one for one in (ours, transformers, products)}


def main(
    way: Annotated[Literal["ours", "transformers", "products"], typer.Argument()],
    reply: Annotated[int, typer.Option(help="Tokens of a reply.")] = REPLY,
) -> None:
    """Generate, and print tokens per second."""
    generate = WAYS[way](reply)
    generate(0)
    start = time.perf_counter()
    sampled = generate(1)
    print(json.dumps({"values": {"rate": sampled / (time.perf_counter() - start)}}))


if __name__ == "__main__":
    typer.run(main)
