"""Compare policies that are trained together with the planner alone: `python -m benchmarks.policies`.

Trains modules of the agent on Atlas in four ways, each with several seeds: the planner alone; planner, verifier and
generator as one policy, with the advantages of Flow-GRPO or of `per-node`; and as three policies with weights of their
own. All are validated every few steps on the same held-out questions, whose worlds no training sees.

Ways are compared at equal sampled tokens, the fewest that any run sampled; the accuracy of a run there is interpolated
between its validations. Differences from the planner alone are paired by question, over the mean of all seeds. A run
has collapsed if its accuracy there is more than `COLLAPSE` below that before training. A step of several modules
samples more tokens than one of the planner, so that it takes fewer steps to as many tokens: train each way with
`--only` and its own `--steps`, then call once more with `--only` for each way to compare.

Needs the extra `train`. A run that was stopped resumes, and finished runs are not repeated.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentflow.evals.statistics import paired_interval
from agentflow.rl.training_log import TrainingLog, rewards_by_task
from benchmarks.analyses.stages import Stages, run

COLLAPSE = 0.1
ALONE = "planner"
MODULES = ("planner", "verifier", "generator")
TOGETHER = f"options.nodes=[{','.join(MODULES)}]"
WAYS: Mapping[str, Sequence[str]] = {
    ALONE: (),
    "shared": (TOGETHER,),
    "shared, per-node": (TOGETHER, "algorithm=per-node"),
    "separate": tuple(f"options.nodes.{module}={module}" for module in MODULES),
}
"""Training settings by way."""


@dataclass(frozen=True)
class Point:
    """A validation of a run."""

    step: int
    tokens: int
    """Tokens sampled in training up to it."""
    questions: dict[str, float]
    """Mean reward of each held-out question."""

    @property
    def accuracy(self) -> float:
        """Mean over the questions."""
        return mean(self.questions.values())


@dataclass(frozen=True)
class Cell:
    """A run."""

    way: str
    seed: int
    points: list[Point]

    def at(self, tokens: int) -> dict[str, float]:
        """Return the reward of each question after a number of sampled tokens, at most those of the last validation."""
        after = next(number for number, point in enumerate(self.points) if point.tokens >= tokens)
        low, high = self.points[max(after - 1, 0)], self.points[after]
        share = (tokens - low.tokens) / (high.tokens - low.tokens) if high.tokens > low.tokens else 0.0
        return {
            task: low.questions[task] + share * (value - low.questions[task]) for task, value in high.questions.items()
        }


def points(folder: Path) -> list[Point]:
    """Return the validations of a training run."""
    log, found = TrainingLog(folder), []
    lines = log.lines()
    for step in [line["step"] for line in lines if line["split"] == "test"]:
        rewards = rewards_by_task(log.records(step, "test"))
        trained = [line for line in lines if line["split"] == "train" and line["step"] <= step]
        tokens = sum(int(line["sampled_tokens"]) for line in trained)
        found.append(Point(step, tokens, {task: mean(own) for task, own in rewards.items()}))
    return found


@dataclass(frozen=True)
class Compared:
    """A way at the common number of tokens."""

    way: str
    before: float
    accuracy: float
    difference: tuple[float, float, float] | None
    """Difference from the planner alone, with its 95 % interval over questions; None for that itself."""
    collapsed: int
    runs: int
    tokens: int


def compared(cells: Sequence[Cell]) -> Iterator[Compared]:
    """Compare ways with the planner alone at equal sampled tokens."""
    tokens = min(cell.points[-1].tokens for cell in cells)
    ways = {way: [cell for cell in cells if cell.way == way] for way in dict.fromkeys(cell.way for cell in cells)}
    ends = {way: [cell.at(tokens) for cell in own] for way, own in ways.items()}
    means = {way: {task: mean(end[task] for end in own) for task in own[0]} for way, own in ends.items()}
    for way, own in ways.items():
        difference = None
        if way != ALONE and ALONE in means:
            each = [means[way][task] - means[ALONE][task] for task in means[way]]
            difference = (mean(each), *paired_interval(each))
        before = [cell.points[0].accuracy for cell in own]
        accuracies = [mean(end.values()) for end in ends[way]]
        collapsed = sum(after < start - COLLAPSE for after, start in zip(accuracies, before, strict=True))
        yield Compared(way, mean(before), mean(accuracies), difference, collapsed, len(own), tokens)


def main(
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/policies"),
    steps: Annotated[int, typer.Option(min=1, help="Of each run.")] = 20,
    every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 5,
    questions: Annotated[int, typer.Option(min=1, help="Train questions of a step.")] = 24,
    held_out: Annotated[int, typer.Option(min=2, help="Held-out questions, four tries each.")] = 96,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each way.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="A way to train; again for more. Without it, all.")] = None,
) -> None:
    """Train the missing runs, print the comparison, and write it to `out`/compared.json."""
    if unknown := set(only or ()) - WAYS.keys():
        raise typer.BadParameter(f"{unknown.pop()}; the ways are {', '.join(WAYS)}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    stages, cells = Stages(out), []
    size = (f"steps={steps}", f"validate_every={every}", f"save_every={every}")
    tasks = (f"questions={questions}", f"test_tasks={held_out}", "flow.algorithm.penalty=0")
    for seed in range(seeds):  # seed by seed, so that a stopped benchmark has every way of the first seeds
        for way in only or WAYS:
            settings = (*size, *tasks, f"seed={seed}", *WAYS[way])
            name = f"{way.replace(', ', '-')}-{seed}"
            folder = stages.make(name, lambda folder, settings=settings: run("train", f"out={folder}", *settings))
            cells.append(Cell(way, seed, points(folder)))
    found = list(compared(cells))
    (out / "compared.json").write_text(json.dumps([vars(one) for one in found], indent=2) + "\n", encoding="utf-8")
    shown = Table("way", "before", "after", "difference", "95 %", "collapsed", "tokens")
    for one in found:
        difference, low, high = one.difference or (0.0, 0.0, 0.0)
        own = (f"{difference:+.3f}", f"{low:+.3f} to {high:+.3f}") if one.difference else ("", "")
        of_runs = f"{one.collapsed} of {one.runs}"
        shown.add_row(one.way, f"{one.before:.3f}", f"{one.accuracy:.3f}", *own, of_runs, f"{one.tokens:,}")
    Console().print(shown)


if __name__ == "__main__":
    typer.run(main)
