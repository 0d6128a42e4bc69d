"""Whether turn-level credit and groups that fork teach more of the same tokens: `python -m benchmarks.credit`.

Trains the micro model's planner on Atlas in four ways: Flow-GRPO as it is preset; the same with the baseline that the
others have (leave-one-out, not divided by the deviation); with credit turn by turn, where a turn that led to an error
earns `ERROR`; with three of four rollouts begun in the middle of the fourth. Each is validated every few steps on the
same 96 held-out questions, four tries each, and trains until it has sampled about as many tokens as the others.

Needs the extra `train`. A run that is there already is not made again.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Task, Trainable
from agentflow.rl.training_log import TrainingLog
from benchmarks.analyses.stages import Stages, run

ERROR = -0.1
"""What a turn earns by itself that led to a format or tool error."""

RLOO = ("flow.baseline=leave-one-out", "flow.scale=none")


def judged_turns() -> Trainable:
    """Atlas, whose turns earn something by themselves."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        return [ERROR * fault for fault in app.faults(state)]

    return replace(app, turn_rewards=turn_rewards)


@dataclass(frozen=True)
class Way:
    """One way to credit."""

    name: str
    settings: tuple[str, ...]
    longer: float = 1.0
    """How many times as many steps it takes for as many tokens: a fork does not sample what it was told."""


WAYS = (
    Way("flow-grpo", ()),
    Way("leave-one-out", (*RLOO, "flow.penalty=0.1")),
    Way("turn", (*RLOO, "flow.credit=turn", "flow.penalty=0", "app=benchmarks.credit:judged_turns")),
    Way("fork", (*RLOO, "flow.credit=fork", "flow.forks=3", "flow.penalty=0.1"), 1.3),
)


@dataclass(frozen=True)
class Point:
    """A validation: after how many sampled tokens, and what it found."""

    step: int
    tokens: int
    accuracy: float
    margin: float
    """Half of the 95 % interval, from the spread between questions."""


def points(folder: Path) -> list[Point]:
    """The validations of a training."""
    log, found = TrainingLog(folder), []
    lines = log.lines()
    for step in [line["step"] for line in lines if line["split"] == "test"]:
        # A step's validation comes after its update, and stands before it in the log.
        trained = [line for line in lines if line["split"] == "train" and line["step"] <= step]
        tries: dict[str, list[float]] = defaultdict(list)
        for record in log.records(step, "test"):
            tries[record.task].append(record.reward)
        questions = [mean(rewards) for rewards in tries.values()]
        margin = 1.96 * stdev(questions) / sqrt(len(questions))
        tokens = sum(int(line["sampled_tokens"]) for line in trained)
        found.append(Point(step, tokens, mean(questions), margin))
    return found


def at(curve: list[Point], tokens: float) -> float:
    """Accuracy after so many tokens, on the line between validations."""
    for before, after in pairwise(curve):
        if before.tokens <= tokens <= after.tokens:
            share = (tokens - before.tokens) / (after.tokens - before.tokens)
            return before.accuracy + share * (after.accuracy - before.accuracy)
    raise ValueError(f"no validations around {tokens} tokens")


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/credit"),
    steps: Annotated[int, typer.Option(min=2, help="Of each run; those that fork take more.")] = 10,
    every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="A way to train; again for more. Without it, all.")] = None,
) -> None:
    """Train what is missing, and print accuracy by tokens."""
    ways = [way for way in WAYS if not only or way.name in only]
    if set(only or ()) - {way.name for way in ways}:
        raise typer.BadParameter(f"the ways are {', '.join(way.name for way in WAYS)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    stages, curves = Stages(out), {}
    for way in ways:
        number = round(way.longer * steps)
        settings = (f"steps={number}", f"validate_every={every}", *way.settings)
        folder = stages.make(way.name, lambda folder, settings=settings: run("train", f"out={folder}", *settings))
        curves[way.name] = points(folder)
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
