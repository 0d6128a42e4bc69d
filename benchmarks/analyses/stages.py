"""Stages of the analyses: trainings and measurements, each in a folder and run only once."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from agentflow.evals import results_store
from agentflow.evals.metrics import Summary, interval, summarise
from agentflow.evals.record import Record

QUESTIONS, EPOCHS, TURNS = 96, 4, 6
"""Held-out questions of every measurement, tries of each at temperature 1, and the turn limit of a try."""
STEPS = 20
"""Steps of every training run: 24 questions x 8 rollouts each, about 15 minutes."""
BUDGETS = range(1, 7)


@dataclass(frozen=True)
class ComparedPlanner:
    """A planner in the comparison."""

    name: str
    label: str
    spec: str
    """Model spec of the planner."""
    made: str
    """Name of the stage that trained it; empty for a planner that is not trained here."""


class Stages:
    """The folder of the analyses, and the stages that fill it."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def make(self, name: str, how: Callable[[Path], None]) -> Path:
        """Return the folder `name`, created by `how` unless it is complete; its seconds are stored next to it."""
        folder, state = self.out / name, self._state(name)
        if not state["whole"]:
            typer.echo(f"\n== {name}")
            start = time.monotonic()
            try:
                how(folder)
                state["whole"] = True
            finally:
                state["seconds"] += time.monotonic() - start
                self._path(name).write_text(json.dumps(state) + "\n", encoding="utf-8")
        return folder

    def minutes(self, name: str) -> float:
        """Return the minutes that stage `name` took, over all calls."""
        return float(self._state(name)["seconds"]) / 60

    def _path(self, name: str) -> Path:
        return self.out / f"{name}.json"

    def _state(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        return dict(json.loads(path.read_bytes())) if path.exists() else {"whole": False, "seconds": 0.0}

    def trained(self, name: str, *settings: str) -> Path:
        """Train a planner with `agentflow train` and `settings`, and return the folder of its export."""

        def train(folder: Path) -> None:
            run("train", f"out={folder}", f"steps={STEPS}", f"validate_every={STEPS}", *settings)

        folder = self.make(name, train)
        return self.make(f"{name}-planner", lambda planner: run("export", str(folder), str(planner)))

    def measured(self, name: str, spec: str, *, turns: int = TURNS) -> "Measured":
        """Evaluate the agent with the planner `spec` on the held-out questions."""
        call = ["eval", "atlas", "--limit", str(QUESTIONS), "--epochs", str(EPOCHS), "--temperature", "1"]
        call += ["--model", "embedded:seed", "--planner", spec, "--max-turns", str(turns), "--concurrency", "32"]
        folder = self.make(f"eval-{name}-{turns}", lambda out: run(*call, "--out", str(out)))
        return Measured(folder)


@dataclass(frozen=True)
class Measured:
    """Results of an evaluation, read from its folder."""

    folder: Path

    @cached_property
    def records(self) -> list[Record]:
        """Record of each try of each question."""
        return results_store.read(self.folder)[1]

    @cached_property
    def summary(self) -> Summary:
        """Metrics of the evaluation."""
        return summarise(self.records, QUESTIONS * EPOCHS)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy."""
        return interval(self.records, QUESTIONS, EPOCHS)


def run(*arguments: str) -> None:
    """Run `agentflow` with these arguments on the terminal. Ends the program on failure; the next call resumes here."""
    done = subprocess.run([sys.executable, "-m", "agentflow", *arguments], check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise typer.Exit(done.returncode)
