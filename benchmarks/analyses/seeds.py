"""Train the checkpoints that the analyses start from or compare with, in the same way as the seed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import typer

from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import MicroTokenizer
from benchmarks.analyses.monolithic import conversations
from recipes.micro.pretrain import Shape, Trainer, atlas_search, group_rows, tokenised
from recipes.micro.traces import FAULTLESS, Conversation, traces

OFFLINE_STEPS = 2000
"""Training steps of the supervised planner, which take about as long as a training run."""


def supervised(folder: Path) -> None:
    """Train a planner offline on faultless plans, starting from the seed."""
    shape = Shape(questions=6000, steps=OFFLINE_STEPS, muon_rate=2e-3, adam_rate=3e-4)
    plans = _first(traces(atlas_search(), shape.seed, FAULTLESS), "planner", shape.questions)
    tokenizer = MicroTokenizer.load(SEED)
    _learn(Trainer(shape, folder, tokenizer, group_rows(plans, tokenizer), start=SEED))


def small_seed(folder: Path) -> None:
    """Train a seed planner of half the size from scratch, on the seed's plans and with a third of its steps."""
    shape = Shape(hidden=128, heads=4, feed_forward=384, steps=Shape.steps // 3)
    plans = _first(traces(atlas_search(), shape.seed), "planner", shape.questions)
    _learn(Trainer(shape, folder, *tokenised(plans, shape)))


def monolithic_seed(folder: Path) -> None:
    """Train a seed for the monolithic policy from scratch, on as many tokens as the seed.

    It takes a third of the steps with three times the tokens each, since the seed's step has a batch for each of three
    kinds of conversations.
    """
    shape = replace(Shape(), tokens=3 * Shape.tokens, steps=Shape.steps // 3)
    # One conversation per question, where the agent's planner has two or more turns.
    _learn(Trainer(shape, folder, *tokenised(list(conversations(atlas_search(), shape.questions // 2)), shape)))


def _first(rows: Iterator[Conversation], module: str, number: int) -> list[Conversation]:
    found: list[Conversation] = []
    while len(found) < number:
        row = next(rows)
        if row.module == module:
            found.append(row)
    return found


def _learn(trainer: Trainer) -> None:
    """Train to the end, resuming from an earlier call's state, and export the model."""
    trainer.out.mkdir(parents=True, exist_ok=True)
    typer.echo(trainer.describe())
    trainer.run(save_every=100)
    trainer.export(trainer.out / "model")
