"""What the analyses are made of: runs and measurements, each a folder, none made twice."""

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
"""Held-out questions of every measurement, tries of each at temperature 1, most turns of a try."""
STEPS = 20
"""Steps of every training run: 24 questions x 8 rollouts each, about 15 minutes."""
BUDGETS = range(1, 7)


@dataclass(frozen=True)
class Planner:
    """One line of the comparison."""

    name: str
    label: str
    spec: str
    """The model that plans."""
    made: str
    """The stage that made it; empty for what is there already."""


class Stages:
    """The folder of the analyses, and what makes its parts."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def make(self, name: str, how: Callable[[Path], None]) -> Path:
        """The folder `name`, made by `how` unless it is whole; the time that this takes is kept beside it."""
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
        """How long making `name` took, over all calls."""
        return float(self._state(name)["seconds"]) / 60

    def _path(self, name: str) -> Path:
        return self.out / f"{name}.json"

    def _state(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        return dict(json.loads(path.read_bytes())) if path.exists() else {"whole": False, "seconds": 0.0}

    def trained(self, name: str, *settings: str) -> Path:
        """The planner that `agentflow train` makes with `settings`, exported."""

        def train(folder: Path) -> None:
            run("train", f"out={folder}", f"steps={STEPS}", f"validate_every={STEPS}", *settings)

        folder = self.make(name, train)
        return self.make(f"{name}-planner", lambda planner: run("export", str(folder), str(planner)))

    def measured(self, name: str, spec: str, *, turns: int = TURNS) -> "Measured":
        """The agent with the planner `spec` on the held-out questions."""
        call = ["eval", "atlas", "--limit", str(QUESTIONS), "--epochs", str(EPOCHS), "--temperature", "1"]
        call += ["--model", "embedded:seed", "--planner", spec, "--max-turns", str(turns), "--concurrency", "32"]
        folder = self.make(f"eval-{name}-{turns}", lambda out: run(*call, "--out", str(out)))
        return Measured(folder)


@dataclass(frozen=True)
class Measured:
    """The folder of an evaluation, read."""

    folder: Path

    @cached_property
    def records(self) -> list[Record]:
        """What came of each try of each question."""
        return results_store.read(self.folder)[1]

    @cached_property
    def summary(self) -> Summary:
        """Its figures."""
        return summarise(self.records, QUESTIONS * EPOCHS)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of its accuracy."""
        return interval(self.records, QUESTIONS, EPOCHS)


def run(*arguments: str) -> None:
    """`agentflow` with these arguments, on the terminal. Ends the program when it fails: the next call goes on here."""
    done = subprocess.run([sys.executable, "-m", "agentflow", *arguments], check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise typer.Exit(done.returncode)
