"""Forward and backward passes of the micro model, in their own process; prints a line of JSON.

    python -m benchmarks.speed.passes --length 650

Batches of a few rows of that many tokens, in float32 on two threads, without an optimiser or a trainer.
"""

import json
import time
from typing import Annotated

import torch
import typer
from transformers import AutoModelForCausalLM

from agentflow.rl.micro.chat_model import SEED

CORES, ROWS, ROUNDS = 2, 8, 3


def main(length: Annotated[int, typer.Option(help="Tokens of a row.")]) -> None:
    """Print tokens per second of a forward pass, and of a forward and backward pass."""
    torch.set_num_threads(CORES)
    model = AutoModelForCausalLM.from_pretrained(SEED, dtype=torch.float32)
    ids = torch.randint(model.config.vocab_size, (ROWS, length))
    forward = backward = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with torch.no_grad():
            model(ids)
        forward = min(forward, time.perf_counter() - start)
        start = time.perf_counter()
        model(ids, labels=ids).loss.backward()
        backward = min(backward, time.perf_counter() - start)
        model.zero_grad()
    print(json.dumps({"forward": ids.numel() / forward, "backward": ids.numel() / backward}))


if __name__ == "__main__":
    typer.run(main)
