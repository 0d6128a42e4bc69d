"""Time of the micro model's Flow-GRPO step, and of its parts: `python -m benchmarks.speed.step RUN`.

RUN is the folder of a training for this measurement (`agentflow train --preset atlas-cpu steps=5 out=RUN`). The floor
is the rollouts and the bare passes: one forward pass of every token for the reference, one forward and backward pass of
every trained token. The trainer's own times of rollouts, reference and update are reported too.
"""

import sys
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any

import typer

from agentflow.rl.training_log import TrainingLog
from benchmarks.speed.catalogue import NotMeasured, printed
from benchmarks.speed.command import OUT, Out, opened
from benchmarks.speed.results import SpeedResults

HELP = "name a training with --training (agentflow train --preset atlas-cpu steps=5 out=RUN)"


def measure(results: SpeedResults, run: Path | None) -> None:
    """Return the seconds of a step and of its floor, and their ratio."""
    what = {"measure": "step", "name": "step", "label": "Flow-GRPO step", "role": "ours", "repeat": 0}
    results.once(lambda: _measured(run), **what)


def _measured(run: Path | None) -> dict[str, Any]:
    lines = [line for line in TrainingLog(run).lines() if line["split"] == "train"] if run else []
    if not lines:
        raise NotMeasured(HELP if run is None else f"{run} has no step of a training; {HELP}")
    lines = lines[1:] or lines  # the first step also starts what the others use
    rate = printed(sys.executable, ["-m", "benchmarks.speed.passes", "--length", str(_row_length(lines))])
    floors = [
        line["seconds/rollouts"]
        + line["forward_tokens"] / rate["forward"]
        + line["forward_tokens"] * line["rows_trained"] / line["rows"] / rate["backward"]
        for line in lines
    ]
    parts = [
        sum(line.get(f"seconds/{part}", 0) for part in ("rollouts", "old", "reference", "update")) for line in lines
    ]
    steps = [line["seconds/step"] for line in lines]
    ratios = {
        "ratio": median(step / floor for step, floor in zip(steps, floors, strict=True)),
        "parts": median(step / part for step, part in zip(steps, parts, strict=True)),
    }
    return {"values": {"seconds": median(steps), "floor": median(floors), **ratios}}


def _row_length(lines: list[dict[str, Any]]) -> int:
    return int(mean(line["forward_tokens"] / line["rows"] for line in lines))


def main(run: Annotated[Path, typer.Argument(help="Folder of a training.")], out: Out = OUT) -> None:
    """Read a training, and time the bare passes."""
    measure(opened(out, 1, False), run)


if __name__ == "__main__":
    typer.run(main)
