"""The progress of a run, in a file next to its trace, for `agentflow view`.

    {"question": ..., "max_turns": 10}       when the run starts
    {"module": "planner", "turn": 1, ...}    `Started`, when a module starts
    {"turn": 1, "sub_goal": ..., ...}        `TraceTurn`, when a turn has ended

The file is deleted when the run ends, because its trace is written then. A file that remains is from a killed run.
"""

from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentflow.graph.run.run_events import Event, Started
from agentflow.graph.run.trace import TraceTurn, to_line

SUFFIX = ".running"
"""Suffix that is appended to the trace's file name."""


class RunStart(BaseModel):
    """The first line of the file."""

    model_config = ConfigDict(extra="forbid")

    question: str
    max_turns: int


class LiveStatusFile:
    """The file of one run: `with LiveStatusFile(trace, question, max_turns) as running: running.show(event)`.

    If it cannot be written, the run continues without it.
    """

    def __init__(self, trace: Path, question: str, max_turns: int) -> None:
        self._path = trace.with_name(trace.name + SUFFIX)
        self._start = RunStart(question=question, max_turns=max_turns)

    def __enter__(self) -> "LiveStatusFile":
        with suppress(OSError):
            self._path.unlink(missing_ok=True)  # left by a killed run
        self._add(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def show(self, event: Event) -> None:
        """Append an event of a module or a turn."""
        if isinstance(event, Started | TraceTurn):
            self._add(event)

    def _add(self, record: BaseModel) -> None:
        with suppress(OSError), self._path.open("ab") as file:
            file.write(to_line(record).encode() + b"\n")
