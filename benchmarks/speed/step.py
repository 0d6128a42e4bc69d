"""What a Flow-GRPO step of the micro model takes beside its parts: `python -m benchmarks.speed.step RUN`.

RUN is the folder of a training that was run for this (`agentflow train --preset atlas-cpu steps=5 out=RUN`). The floor
is its rollouts, and the passes alone: one forward of every token for the reference, one forward and backward of every
token that is trained on. What the trainer itself counts as rollouts, reference and update is told beside it.
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
    """Seconds of a step, of its floor, and their ratio."""
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
    """Reads a training, and times the passes alone."""
    measure(opened(out, 1, False), run)


if __name__ == "__main__":
    typer.run(main)
