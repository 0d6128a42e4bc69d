"""Compare turn-level credit with trajectory-level credit at equal tokens: `python -m benchmarks.credit`.

Trains the micro model's planner on Atlas in three ways: Flow-GRPO with the preset's settings; RLOO, which has the
baseline of turn-level credit; and turn-level credit, where a turn that led to an error earns `ERROR`. Each is validated
every few steps on the same 96 held-out questions, four tries each.

Needs the extra `train`. Finished runs are not repeated.
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

from agentflow.evals.task import Task
from agentflow.rl.planner import atlas
from agentflow.rl.trainable import Trainable
from agentflow.rl.training_log import TrainingLog
from benchmarks.analyses.stages import Stages, run

ERROR = -0.1
"""Turn-level reward of a turn that led to a format or tool error."""


def judged_turns() -> Trainable:
    """Return the Atlas app with turn-level rewards."""
    app = atlas()

    def turn_rewards(task: Task, state: Any) -> list[float]:
        return [ERROR * fault for fault in app.faults(state)]

    return replace(app, turn_rewards=turn_rewards)


WAYS = {
    "flow-grpo": (),
    "rloo": ("algorithm=rloo", "flow.algorithm.penalty=0.1"),
    "turn": ("algorithm=turn", "flow.algorithm.penalty=0", "app=benchmarks.credit:judged_turns"),
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
        margin = 1.96 * stdev(questions) / sqrt(len(questions))
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
) -> None:
    """Train the missing runs, and print accuracy by tokens."""
    if unknown := set(only or ()) - WAYS.keys():
        raise typer.BadParameter(f"{unknown.pop()}; the ways are {', '.join(WAYS)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    stages, curves = Stages(out), {}
    for name in only or WAYS:
        settings = (f"steps={steps}", f"validate_every={every}", *WAYS[name])
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
