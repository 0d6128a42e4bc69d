"""Compare ways to learn at equal rollouts and tokens: `python -m benchmarks.ways`.

Trains the micro model's planner on Atlas in several ways (`WAYS`), each with the preset's other settings, and validates
each every few steps on the same held-out questions, four tries each. `--setting` is passed on to all trainings, and
`app=MODULE:FUNCTION` compares the ways on another task.

Needs the extra `train`. Finished runs are not repeated.
"""

import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentflow.evals.statistics import paired_interval
from agentflow.rl.run.training_log import TrainingLog

WAYS = {
    "flow-grpo": (),
    "ppo-4": ("flow.updates=4",),
    "sft": ("algorithm=sft",),
    "stale": ("max_staleness=1",),
    "verifier": ("options.nodes=[planner,verifier]",),
}
"""Training settings by way to learn. `-4` makes four updates a step."""


@dataclass(frozen=True)
class Point:
    """A validation, and what was sampled in training up to it."""

    step: int
    tokens: float
    minutes: float
    """Duration of the training steps; validations are not included."""
    rewards: Mapping[str, Sequence[float]]
    """Rewards of the tries of each question."""
    pass_at_k: float
    """pass@k, where k is the number of tries."""

    @property
    def accuracy(self) -> float:
        """Mean over the questions."""
        return mean(mean(tries) for tries in self.rewards.values())

    @property
    def margin(self) -> float:
        """Half-width of the 95 % interval, from the spread between questions."""
        questions = [mean(tries) for tries in self.rewards.values()]
        return 1.96 * stdev(questions) / math.sqrt(len(questions))


def points(folder: Path) -> list[Point]:
    """Return the validations of a training run."""
    log, found = TrainingLog(folder), []
    lines = log.lines()
    for step in [line["step"] for line in lines if line["split"] == "test"]:
        # A step's validation runs after its update, but is logged before it.
        trained = [line for line in lines if line["split"] == "train" and line["step"] <= step]
        tries = log.tries(step)
        tokens = sum(int(line["sampled_tokens"]) for line in trained)
        pass_at_k = mean(max(rewards) for rewards in tries.values())
        found.append(Point(step, tokens, sum(line["seconds/step"] for line in trained) / 60, tries, pass_at_k))
    return found


def pooled(seeds: Sequence[Point]) -> Point:
    """Return the same validation of several seeds as one: the tries of all, and the means of the other figures."""
    tries: dict[str, list[float]] = defaultdict(list)
    for one in seeds:
        for question, rewards in one.rewards.items():
            tries[question] += rewards
    means = (mean(getattr(one, name) for one in seeds) for name in ("tokens", "minutes"))
    return Point(seeds[0].step, *means, tries, mean(one.pass_at_k for one in seeds))


def difference(one: Point, other: Point) -> tuple[float, float, float]:
    """Return the difference of two accuracies, `one` less `other`, with its 95 % interval, paired by question."""
    differences = [
        mean(tries) - mean(other.rewards[question])
        for question, tries in one.rewards.items()
        if question in other.rewards
    ]
    return mean(differences), *paired_interval(differences)


def at(curve: Sequence[Point], tokens: float) -> float:
    """Return the accuracy after `tokens`, interpolated linearly. Raises ValueError outside of the validations."""
    for before, after in pairwise(curve):
        if before.tokens <= tokens <= after.tokens:
            share = (tokens - before.tokens) / (after.tokens - before.tokens)
            return before.accuracy + share * (after.accuracy - before.accuracy)
    raise ValueError(f"no validations around {tokens} tokens")


def trained(folder: Path, *settings: str) -> Path:
    """Run `agentflow train` unless the run in `folder` is complete; return the folder. Ends the program on failure."""
    complete = folder.with_suffix(".complete")
    if not complete.exists():
        typer.echo(f"\n== {folder.name}")
        command = [sys.executable, "-m", "agentflow", "train", f"out={folder}", *settings]
        if status := subprocess.run(command, check=False).returncode:  # noqa: S603 - our own words
            raise typer.Exit(status)
        complete.touch()
    return folder


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/ways"),
    steps: Annotated[int, typer.Option(min=2, help="Of each run.")] = 10,
    every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each way.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="A way to train; again for more. Without it, all.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="Setting of all trainings, key=value; again for more.")
    ] = None,
) -> None:
    """Train the missing runs, and print accuracy by tokens."""
    if unknown := set(only or ()) - WAYS.keys():
        raise typer.BadParameter(f"{unknown.pop()}; the ways are {', '.join(WAYS)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    names, curves = list(only or WAYS), dict[str, list[list[Point]]]()
    for seed in range(seeds):
        for name in names:
            # The accuracy before training is that of the first way.
            before = () if name == names[0] else ("trainer.val_before_train=false",)
            common = (f"steps={steps}", f"validate_every={every}", f"seed={seed}", *before, *(setting or ()))
            folder = trained(out / f"{name}-{seed}", *common, *WAYS[name])
            curves.setdefault(name, []).append(points(folder))
    _show({name: [pooled(one) for one in zip(*own, strict=True)] for name, own in curves.items()}, names[0])


def _show(curves: Mapping[str, Sequence[Point]], first: str) -> None:
    base = curves[first]
    curves = {name: curve if name == first else [base[0], *curve] for name, curve in curves.items()}
    common = min(curve[-1].tokens for curve in curves.values())
    columns = ("way", "step", "tokens, thousands", "minutes", "accuracy", "+-", "pass@k")
    shown = Table(*columns, "less no training", f"less {first}")
    shown.add_row(
        "no training", "0", "0", "0", f"{base[0].accuracy:.3f}", f"{base[0].margin:.3f}", f"{base[0].pass_at_k:.3f}"
    )
    for name, curve in curves.items():
        shown.add_section()
        for one, other in list(zip(curve, base, strict=True))[1:]:
            spent = f"{one.tokens / 1000:.0f}", f"{one.minutes:.1f}", f"{one.accuracy:.3f}", f"{one.margin:.3f}"
            others = [base[0], other] if name != first else [base[0]]
            compared = ("{:+.3f} ({:+.3f} to {:+.3f})".format(*difference(one, than)) for than in others)
            shown.add_row(name, f"{one.step}", *spent, f"{one.pass_at_k:.3f}", *compared)
    console = Console(width=140)
    console.print(shown)
    console.print(f"\nAfter {common / 1000:.0f} thousand tokens")
    for name, curve in curves.items():
        console.print(f"  {name:<18}{at(curve, common):.3f}")


if __name__ == "__main__":
    typer.run(main)
