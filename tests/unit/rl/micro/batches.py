"""Dependence of an engine's replies on concurrent requests: `python -m tests.unit.rl.micro.batches ROUNDS`.

A program, as OpenBLAS reads which kernels to take when it is loaded. It prints the kernels that it has.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from agentflow.rl.micro.batch_invariance import batch_invariant
from agentflow.rl.micro.engine import Engine
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer

SEED = Path(sys.modules[MicroModel.__module__].__file__ or "").with_name("seed")
"""The checkpoint, without what the chat model imports."""

Request = tuple[list[int], dict[str, Any]]


def requests(chance: np.random.Generator, longest: int) -> list[Request]:
    """Prompts of any length, half of which extend others, greedy and sampled, that end at different steps."""
    made: list[Request] = []
    for seed in range(int(chance.integers(2, 24))):
        prompt = chance.integers(300, 1300, chance.integers(1, longest)).tolist()
        if made and chance.random() < 0.5:
            earlier = made[chance.integers(len(made))][0]
            prompt = [*earlier[: chance.integers(1, len(earlier) + 1)], *prompt[: longest // 4]]
        options = {"temperature": float(chance.choice([0.0, 1.0])), "top_p": float(chance.choice([0.9, 1.0]))}
        made.append((prompt, {**options, "seed": seed, "max_tokens": int(chance.integers(1, 16))}))
    return made


def differing(model: MicroModel, tokenizer: MicroTokenizer, seed: int) -> int:
    """Return how many requests of a random batch differ, in any bit, from the same requests alone."""
    chance = np.random.default_rng(seed)
    asked = requests(chance, longest=int(chance.choice([20, 150, 600]) if seed else 40))
    threads, slots = int(chance.integers(1, 4)), int(chance.integers(2, 40))
    beside = Engine(model, tokenizer, slots=slots, threads=threads, prefix_tokens=int(chance.choice([0, 500, 65536])))
    alone = Engine(model, tokenizer, prefix_tokens=0)
    together = [beside.submit(prompt, **options) for prompt, options in asked]
    expected = [alone.submit(prompt, **options).result() for prompt, options in asked]
    return sum(one.result() != other for one, other in zip(together, expected, strict=True))


def main(rounds: int) -> int:
    model, tokenizer = MicroModel.load(SEED), MicroTokenizer.load(SEED)
    found = [differing(model, tokenizer, seed) for seed in range(rounds)]
    print(*{library["architecture"] for library in threadpool_info() if "architecture" in library})
    return int(any(found) or not batch_invariant(model))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
