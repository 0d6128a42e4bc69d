"""A small model that calls tools, trained from scratch on what the example agents do with an oracle as their model.

python -m examples.agents.pretrain --out runs/tool-model

It is imperfect on purpose, as the oracle is, so that a reward shows which of its ways are right. The agents run as they
are; the training data are the rows that a training would make of their rollouts.
"""

import asyncio
import importlib
import random
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import track

from agentflow.graph.run.task import Task
from agentflow.rl.apps.agent import inputs
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import END, TOOL_TEMPLATE, MicroTokenizer
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.packing import TrainingSample, pack
from agentflow.rl.rollout.rollout import run
from agentflow.rl.rollout.template import load_tokenizer
from examples.agents.oracle import Oracle
from examples.agents.sums import example, score
from recipes.micro.pretrain import Example, PrefixGroup, Shape, Trainer
from recipes.micro.vocabulary import train

LONGEST = 4096
"""Tokens of a row."""


@dataclass(frozen=True)
class Lesson:
    """Training data of one agent."""

    rollouts: int
    mistakes: float
    """Probability of a mistake in each reply that can have one."""
    steps: int = 2
    """Most steps of a sum."""


LESSONS = {
    "tools": Lesson(600, 0.35),
    "swarm": Lesson(500, 0.25),
    "structured": Lesson(400, 0.5, steps=1),
}
"""`fan_out` and `memory` are left out, which are mental arithmetic, and `supervisor` and `deep`, which are long."""

FIRST_ROLLOUTS = 20
"""Rollouts of each agent that the tokenizer is trained on."""

SHAPE = Shape(
    hidden=128,
    layers=3,
    heads=4,
    key_value_heads=4,
    feed_forward=256,
    vocabulary=700,
    tokens=400,
    steps=1800,
    warm_up=30,
    hold=200,
    look_back=3,
    cool_down=0.7,
)
"""A number of a question is told from the others by the word before it, which is up to three tokens back."""

Prefix = tuple[str, tuple[int, ...]]
"""An agent, and the tokens of a system prompt."""


async def play(agent: str, rollouts: int, known: ChatFormat) -> list[TrainingSample]:
    """Return the rows of rollouts of an agent whose model is the oracle."""
    lesson, rng = LESSONS[agent], random.Random(f"sums {agent}")
    oracle = Oracle(known, lesson.mistakes, seed=agent)
    app = Trainable(
        name=agent,
        graph=importlib.import_module(f"examples.agents.{agent}").agent,
        nodes=(),
        tasks=lambda split, number: [],
        inputs=inputs,
        reward=score,
    )
    found = list[TrainingSample]()
    for number in track(range(rollouts), f"playing {agent}"):
        question, result = example(rng, lesson.steps)
        task = Task(id=str(number), question=question, gold=str(result))
        found += pack((await run(app, app.built(), task, oracle, id=task.id, seconds=60)).calls, limit=LONGEST)
    return found


def grouped(agent: str, rows: Sequence[TrainingSample], end: int) -> dict[Prefix, list[Example]]:
    """Group rows by their system prompts; `end` is the token that ends a message."""
    found: dict[Prefix, list[Example]] = defaultdict(list)
    for row in rows:
        ids = [*row.prompt_ids, *row.response_ids]
        learnt = [*([False] * len(row.prompt_ids)), *map(bool, row.mask)]
        prefix = ids.index(end) + 2  # with the line break after it
        found[agent, tuple(ids[:prefix])].append(Example(ids[prefix:], learnt[prefix:]))
    return found


def tokenizer_of(known: ChatFormat) -> MicroTokenizer:
    """Train a tokenizer on a few rollouts of each agent."""
    rows = [row for agent in LESSONS for row in asyncio.run(play(agent, FIRST_ROLLOUTS, known))]
    texts = [known.tokenizer.decode([*row.prompt_ids, *row.response_ids]) for row in rows]
    pieces = (piece for text in texts for piece in text.split(END))
    return MicroTokenizer(train(pieces, SHAPE.vocabulary), TOOL_TEMPLATE)


def groups_of(known: ChatFormat, end: int) -> list[PrefixGroup]:
    """Return the rows of all agents by agent and system prompt."""
    return [
        PrefixGroup(agent, list(prefix), rows)
        for name, lesson in LESSONS.items()
        for (agent, prefix), rows in grouped(name, asyncio.run(play(name, lesson.rollouts, known)), end).items()
    ]


def main(
    out: Annotated[Path, typer.Option(help="Where the state, the log and the model go.")] = Path("runs/tool-model"),
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = SHAPE.steps,
) -> None:
    """Train the model from scratch, or resume a stopped run. It is written to OUT/model."""
    warnings.filterwarnings("ignore", "create_react_agent has been moved")  # by langgraph-supervisor
    torch.set_num_threads(1)  # two threads wait for each other over matrices of this size
    seed = load_tokenizer(SEED)
    seed.chat_template = TOOL_TEMPLATE
    tokenizer = tokenizer_of(ChatFormat(seed))
    tokenizer.save(out / "tokenizer")
    groups = groups_of(ChatFormat(load_tokenizer(out / "tokenizer")), tokenizer.end_id)
    shares = dict.fromkeys(LESSONS, 1 / len(LESSONS))
    shape = replace(SHAPE, steps=steps, hold=min(SHAPE.hold, steps // 2))
    trainer = Trainer(shape, out, tokenizer, groups, shares=shares)
    typer.echo(trainer.describe())
    trainer.run(save_every=100)
    trainer.export(out / "model")
    typer.echo(f"the model is in {out / 'model'}")


if __name__ == "__main__":
    typer.run(main)
