"""Asynchronous training beside synchronous: steps per hour, and the accuracy that they lead to.

    python -m benchmarks.staleness                      # trains, five seeds of each bound, in alternation
    python -m benchmarks.staleness simulate RUN         # other machines, from the rollouts and updates of a run

Trains the micro model's planner on Atlas with `max_staleness` 0 and 1, and validates each at its end on the same
held-out questions. Steps per hour are over all steps, without the start of the workers and the validation.

The simulation takes the seconds of rollouts and updates from a run with `max_staleness=0`, for a machine with several
devices that are as fast as all of the run's, with as many times its rollouts a step. They sample and train in turn, or
some sample and the others train. A device samples as many rollouts at once as the run did; weight syncs take no time.

Needs the extra `train`. A run that was stopped resumes, and finished runs are not repeated.
"""

import asyncio
import heapq
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from agentflow.graph.run.task import Task
from agentflow.rl.apps.planner import atlas
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.run.training_log import TrainingLog
from benchmarks.ways import difference, points, pooled, trained

BOUNDS = (0, 1)
STEPS = 12
COMMON = (
    *(f"steps={STEPS}", "questions=8", "rollouts=8", "preview=0", "rollout_seconds=600", f"save_every={STEPS}"),
    *("test_tasks=96", "validation_rollouts=4", f"validate_every={STEPS}", "trainer.val_before_train=false"),
)
"""Settings of all runs."""

app = typer.Typer(add_completion=False)


def judged(seconds: float) -> Trainable:
    """Return the Atlas app with a judge that takes some seconds for each answer, as one behind an endpoint does."""
    plain = atlas()

    async def reward(task: Task, state: Any) -> Any:
        await asyncio.sleep(seconds)
        return plain.reward(task, state)

    return plain.with_reward(reward)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/staleness"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each bound.")] = 5,
    judge: Annotated[float, typer.Option(min=0, help="Seconds that a judge takes for each answer.")] = 0,
    setting: Annotated[
        list[str] | None, typer.Option(help="Setting of all trainings, key=value; again for more.")
    ] = None,
) -> None:
    """Train the missing runs, and print speed and accuracy."""
    if context.invoked_subcommand:
        return
    out.mkdir(parents=True, exist_ok=True)
    folders = dict[tuple[int, int], Path]()
    slow = ("app=benchmarks.staleness:judged", f"options.seconds={judge}") if judge else ()
    for seed in range(seeds):
        for bound in BOUNDS if seed % 2 == 0 else BOUNDS[::-1]:
            settings = (*COMMON, f"seed={seed}", f"max_staleness={bound}", *slow, *(setting or ()))
            folders[bound, seed] = trained(out / f"stale-{bound}-{seed}", *settings)
    _show(folders, seeds)


def speed(log: TrainingLog) -> float:
    """Return steps per hour."""
    seconds = [line["seconds/step"] for line in log.lines() if line["split"] == "train"]
    return 3600 * len(seconds) / sum(seconds)


def _show(folders: Mapping[tuple[int, int], Path], seeds: int) -> None:
    logs = {run: TrainingLog(folder) for run, folder in folders.items()}
    last = {run: points(folder)[-1] for run, folder in folders.items()}
    shown = Table("seed", "max_staleness", "steps per hour", "accuracy", "staleness")
    for (bound, seed), log in logs.items():
        staleness = mean(line.get("staleness", 0.0) for line in log.lines() if line["split"] == "train")
        found = f"{speed(log):.0f}", f"{last[bound, seed].accuracy:.3f}", f"{staleness:.2f}"
        shown.add_row(f"{seed}", f"{bound}", *found)
    console = Console()
    console.print(shown)
    ratios = [math.log(speed(logs[1, seed]) / speed(logs[0, seed])) for seed in range(seeds)]
    spread = 1.96 * stdev(ratios) / math.sqrt(seeds) if seeds > 1 else 0.0
    low, middle, high = (math.exp(mean(ratios) + part) for part in (-spread, 0, spread))
    interval = f" ({low:.2f} to {high:.2f}, over seeds)" if seeds > 1 else ""
    console.print(f"steps per hour, max_staleness 1 to 0: {middle:.2f}{interval}")
    synchronous, stale = (pooled([last[bound, seed] for seed in range(seeds)]) for bound in BOUNDS)
    less, low, high = difference(stale, synchronous)
    console.print(f"accuracy, max_staleness 1 less 0: {less:+.3f} ({low:+.3f} to {high:+.3f}, over questions)")


@app.command()
def simulate(
    folder: Annotated[Path, typer.Argument(help="Folder of a run with max_staleness=0.")],
    devices: Annotated[int, typer.Option(min=2, help="Of the machine, each as fast as all of the run's.")] = 8,
    steps: Annotated[int, typer.Option(min=2, help="Of each simulation.")] = 200,
) -> None:
    """Print the steps per hour of a machine that samples and trains in turn, and of one that does both at once."""
    log = TrainingLog(folder)
    lines = [line for line in log.lines() if line["split"] == "train"][1:]
    if not lines or "max_staleness" in lines[0]:
        raise typer.BadParameter(f"{folder} is no run of two steps or more with max_staleness=0; name such a run")
    sampling = [[record.seconds for record in log.records(line["step"], "train")] for line in lines]
    update = median(line["seconds/step"] - line["seconds/rollouts"] for line in lines)
    drawn, number = np.random.default_rng(0), len(sampling[0])
    durations = [drawn.choice(np.concatenate(sampling), devices * number).tolist() for _ in range(steps)]
    shown = Table("devices that sample", "that train", "max_staleness", "steps per hour", "ratio")
    base = per_hour(durations, update, slots=devices * number, max_staleness=0)
    shown.add_row(f"{devices}, in turn", f"{devices}", "0", f"{base:.0f}", "1.00")
    for samplers in range(1, devices):
        for bound in (1, 2):
            own = update * devices / (devices - samplers)
            found = per_hour(durations, own, slots=samplers * number, max_staleness=bound)
            shown.add_row(f"{samplers}", f"{devices - samplers}", f"{bound}", f"{found:.0f}", f"{found / base:.2f}")
    Console().print(shown)


def per_hour(durations: Sequence[Sequence[float]], update: float, slots: int, max_staleness: int) -> float:
    """Return the steps per hour, given the seconds of each step's rollouts and of an update.

    At most `slots` rollouts run at once. Those of step s begin once the update of step s - 1 - max_staleness is over.
    """
    free, trained = [0.0] * slots, list[float]()
    for step, rollouts in enumerate(durations):
        begun = trained[step - 1 - max_staleness] if step > max_staleness else 0.0
        ends = []
        for seconds in rollouts:
            ends.append(max(heapq.heappop(free), begun) + seconds)
            heapq.heappush(free, ends[-1])
        trained.append(max(*ends, trained[-1] if trained else 0.0) + update)
    return 3600 * len(durations) / trained[-1]


if __name__ == "__main__":
    app()
