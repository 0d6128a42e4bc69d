"""Checkpoints in the folder of a run, as verl writes them.

checkpoints/global_step_10/                        a step's weights, and what is needed to go on from there
checkpoints/latest_checkpointed_iteration.txt      the step of the last complete one
"""

from pathlib import Path

FOLDER = "checkpoints"

CHECKPOINT = "global_step_"

LATEST = "latest_checkpointed_iteration.txt"
"""File in which verl records the step of the last complete checkpoint."""


def saved_steps(run: Path) -> list[int]:
    """Return the steps whose checkpoints the run folder has, in order."""
    names = (path.name.removeprefix(CHECKPOINT) for path in (run / FOLDER).glob(f"{CHECKPOINT}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def checkpoint_of(run: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return run / FOLDER / f"{CHECKPOINT}{step}"


def latest_step(run: Path) -> int | None:
    """Return the step of the last complete checkpoint; None if there is none."""
    path = run / FOLDER / LATEST
    step = path.read_text(encoding="ascii", errors="replace").strip() if path.is_file() else ""
    return int(step) if step.isdecimal() else None
