"""Checkpoints in the folder of a run, verl's and the weights of the best one; and the lock of the folder.

checkpoints/global_step_10/                        a step's weights, and what is needed to go on from there
checkpoints/latest_checkpointed_iteration.txt      the step of the last complete one
best/global_step_30/                               without the optimiser's state: the step that did best on the
                                                   held-out tasks, of those that were saved and validated
train.lock                                         two trainings in one folder would mix up all of these
"""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from agentflow.tools.file_lock import lock

FOLDER = "checkpoints"

BEST = "best"

CHECKPOINT = "global_step_"

LATEST = "latest_checkpointed_iteration.txt"
"""File in which verl records the step of the last complete checkpoint."""

ACTOR = "actor"
"""Folder of the weights in a checkpoint. It is all that verl deletes of an old one."""

OPTIMISER = "optim_*"
"""Files of the optimiser's state in a checkpoint, which are larger than the weights."""


def saved_steps(run: Path, folder: str = FOLDER) -> list[int]:
    """Return the steps whose checkpoints the run has in one of its folders, in order."""
    names = (path.name.removeprefix(CHECKPOINT) for path in (run / folder).glob(f"{CHECKPOINT}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def checkpoint_of(run: Path, step: int, folder: str = FOLDER) -> Path:
    """Return the folder of a step's checkpoint."""
    return run / folder / f"{CHECKPOINT}{step}"


def latest_step(run: Path) -> int | None:
    """Return the step of the last complete checkpoint; None if there is none."""
    path = run / FOLDER / LATEST
    step = path.read_text(encoding="ascii", errors="replace").strip() if path.is_file() else ""
    return int(step) if step.isdecimal() else None


def best_step(run: Path, accuracies: Mapping[int, float]) -> int | None:
    """Return the step with the highest accuracy, the last of equals, of those whose weights the run has; None if it
    has none of them. `accuracies` are the held-out ones of the validated steps.
    """
    latest = latest_step(run) or 0
    complete = (step for step in saved_steps(run) if step <= latest and (checkpoint_of(run, step) / ACTOR).is_dir())
    saved = accuracies.keys() & {*complete, *saved_steps(run, BEST)}
    return max(saved, key=lambda step: (accuracies[step], step), default=None)


def best_checkpoint(run: Path, accuracies: Mapping[int, float]) -> Path | None:
    """Return the checkpoint of the best step, with its weights at least; None if there is none."""
    if (step := best_step(run, accuracies)) is None:
        return None
    kept = checkpoint_of(run, step, BEST)
    return kept if kept.is_dir() else checkpoint_of(run, step)


def keep_best(run: Path, accuracies: Mapping[int, float]) -> None:
    """Keep the weights of the best step so far, and delete those of earlier best steps.

    They are hard links to the checkpoint's files, which take no space until verl deletes it. Takes what `best_step`
    takes.
    """
    best = best_step(run, accuracies)
    others = [step for step in saved_steps(run, BEST) if step != best]
    if best is not None and not (kept := checkpoint_of(run, best, BEST)).is_dir():
        new = kept.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        without_optimiser = shutil.ignore_patterns(OPTIMISER)
        shutil.copytree(checkpoint_of(run, best), new, ignore=without_optimiser, copy_function=_link)
        new.rename(kept)
    for step in others:
        shutil.rmtree(checkpoint_of(run, step, BEST))


def _link(source: str, target: str) -> None:
    """Make a hard link, or a copy where the file system has no links."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copy2(source, target)


LOCK = "train.lock"
"""Lock file in a run folder. The file is never removed and names its last holder. Only the kernel's lock on it counts,
which is released however the process ends."""


@contextmanager
def run_lock(out: Path) -> Iterator[None]:
    """Lock the folder `out`, and create it if it does not exist. Raises SettingsError if another process holds it."""
    from agentflow.rl.settings import SettingsError

    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("a+", encoding="utf-8")
        lock(file)
    except BlockingIOError as error:
        with file:
            file.seek(0)
            holder = file.read().strip() or "another process"
        raise SettingsError(
            f"{holder} is training in {out}; wait for its end, or choose another out=", code="locked"
        ) from error
    except OSError as error:
        raise SettingsError(
            f"cannot write to {out} ({error.strerror}); choose another out=", code="unwritable"
        ) from error
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
