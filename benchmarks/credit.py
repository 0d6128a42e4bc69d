"""Compare estimators and objectives at equal tokens: `python -m benchmarks.credit`.

Trains the micro model's planner on Atlas in several ways (`WAYS`), each with the preset's other settings, and validates
each every few steps on the same held-out questions, four tries each. `--setting` is passed on to all trainings.

- flow-grpo; gigpo; rloo, which has the baseline of turn-level credit
- turn: turn-level credit, where a turn that led to an error earns `ERROR`
- information-gain: turn-level credit, where a turn earns by how much likelier it makes the right answer to the frozen
  generator (IGPO, arXiv:2510.14967)
- ppo-4, gspo-4, cispo-4: Flow-GRPO with four updates a step, where the objectives differ

Needs the extra `train`. Finished runs are not repeated.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from agentflow.evals.atlas import oracle
from agentflow.evals.task import Task
from agentflow.graph.state import Turn
from agentflow.nodes import generator
from agentflow.rl.calls import ids_array
from agentflow.rl.chat import ROLES
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.model import MicroModel
from agentflow.rl.micro.tokenizer import MicroTokenizer
from agentflow.rl.packing import first_difference
from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Trainable
from agentflow.rl.training_log import TrainingLog
from benchmarks.analyses.stages import Stages, run

ERROR = -0.1
"""Turn-level reward of a turn that led to a format or tool error."""
GAIN = 0.5
"""Turn-level reward of a turn that makes the right answer certain."""


def judged_turns() -> Trainable:
    """Return the Atlas app with turn-level rewards."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        return [ERROR * fault for fault in app.faults(state)]

    return replace(app, turn_rewards=turn_rewards)


def informed_turns() -> Trainable:
    """Return the Atlas app in which a turn earns the gain in the probability of the right answer."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        likely = probabilities(task, state["memory"])
        found = [GAIN * (after - before) for before, after in pairwise(likely)]
        # A call whose turn is not in memory, since the time ran out, gains nothing.
        return found + [0.0] * (len(app.faults(state)) - len(found))

    return replace(app, turn_rewards=turn_rewards)


def probabilities(task: Task, memory: Sequence[Turn]) -> list[float]:
    """Return how likely the seed's generator finds the right answer before the first turn and after each.

    Each is the geometric mean over the tokens of the reply.
    """
    model, tokenizer = _seed()
    reply = tokenizer.encode(oracle.generator_reply(task.gold))
    cache, read, found = model.new_cache(), list[int](), []
    for turns in range(len(memory) + 1):
        prompt = [(ROLES[one.type], one.text) for one in generator.messages(task.question, list(memory[:turns]))]
        ids = tokenizer.encode_chat(prompt)
        differs = first_difference(ids_array(read), ids_array(ids))
        known = len(read) if differs is None else differs
        logits, total, read = model.prefill(cache, 0, ids[known:], known), 0.0, ids
        for place, token in enumerate(reply, start=len(ids)):
            shifted = logits - logits.max()
            total += float(shifted[token]) - math.log(float(np.exp(shifted).sum()))
            logits = model.step(cache, np.array([token]), np.array([place]))[0]
        found.append(math.exp(total / len(reply)))
    return found


@cache
def _seed() -> tuple[MicroModel, MicroTokenizer]:
    return MicroModel.load(SEED), MicroTokenizer.load(SEED)


WAYS = {
    "flow-grpo": (),
    "gigpo": ("algorithm=gigpo",),
    "rloo": ("algorithm=rloo", "flow.algorithm.penalty=0.1"),
    "turn": ("algorithm=turn", "flow.algorithm.penalty=0", "app=benchmarks.credit:judged_turns"),
    "information-gain": ("algorithm=turn", "flow.algorithm.penalty=0.1", "app=benchmarks.credit:informed_turns"),
    **{f"{name}-4": (f"flow.objective={name}", "flow.updates=4") for name in ("ppo", "gspo", "cispo")},
}
"""Training settings by way of assigning credit."""


@dataclass(frozen=True)
class Point:
    """Accuracy of a validation, and the tokens sampled in training up to it."""

    step: int
    tokens: int
    accuracy: float
    margin: float
    """Half-width of the 95 % interval, from the spread between questions."""


def points(folder: Path) -> list[Point]:
    """Return the validations of a training run."""
    log, found = TrainingLog(folder), []
    lines = log.lines()
    for step in [line["step"] for line in lines if line["split"] == "test"]:
        # A step's validation runs after its update, but is logged before it.
        trained = [line for line in lines if line["split"] == "train" and line["step"] <= step]
        tries: dict[str, list[float]] = defaultdict(list)
        for record in log.records(step, "test"):
            tries[record.task.id].append(record.reward)
        questions = [mean(rewards) for rewards in tries.values()]
        margin = 1.96 * stdev(questions) / math.sqrt(len(questions))
        tokens = sum(int(line["sampled_tokens"]) for line in trained)
        found.append(Point(step, tokens, mean(questions), margin))
    return found


def at(curve: list[Point], tokens: float) -> float:
    """Return the accuracy after `tokens`, interpolated linearly. Raises ValueError outside of the validations."""
    for before, after in pairwise(curve):
        if before.tokens <= tokens <= after.tokens:
            share = (tokens - before.tokens) / (after.tokens - before.tokens)
            return before.accuracy + share * (after.accuracy - before.accuracy)
    raise ValueError(f"no validations around {tokens} tokens")


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/credit"),
    steps: Annotated[int, typer.Option(min=2, help="Of each run.")] = 10,
    every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="A way to train; again for more. Without it, all.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="Setting of all trainings, key=value; again for more.")
    ] = None,
) -> None:
    """Train the missing runs, and print accuracy by tokens."""
    if unknown := set(only or ()) - WAYS.keys():
        raise typer.BadParameter(f"{unknown.pop()}; the ways are {', '.join(WAYS)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    stages, curves = Stages(out), {}
    for name in only or WAYS:
        settings = (f"steps={steps}", f"validate_every={every}", *(setting or ()), *WAYS[name])
        folder = stages.make(name, lambda folder, settings=settings: run("train", f"out={folder}", *settings))
        curves[name] = points(folder)
    shown = Table("way", "step", "tokens, thousands", "accuracy", "+-")
    for name, curve in curves.items():
        for one in curve:
            shown.add_row(name, f"{one.step}", f"{one.tokens / 1000:.0f}", f"{one.accuracy:.3f}", f"{one.margin:.3f}")
        shown.add_section()
    common = min(curve[-1].tokens for curve in curves.values())
    console = Console()
    console.print(shown)
    console.print(f"\nAfter {common / 1000:.0f} thousand tokens")
    for name, curve in curves.items():
        console.print(f"  {name:<16}{at(curve, common):.3f}")


if __name__ == "__main__":
    typer.run(main)
