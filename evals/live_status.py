"""What a run is doing now, in a file beside its trace: `agentflow view` shows it turn by turn.

    {"question": ..., "max_turns": 10}       when it starts
    {"module": "planner", "turn": 1, ...}    when a module begins
    {"turn": 1, "sub_goal": ..., ...}        an TraceTurn, when a turn has ended

The file goes when the run ends, since the run's trace is written then. One that is left behind is of a run that was
killed.
"""

from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agentflow.evals.rollout import Event, Started
from agentflow.evals.trace import TraceTurn, to_line

SUFFIX = ".running"
"""After the trace's name."""


class Opening(BaseModel):
    """The first line."""

    model_config = ConfigDict(extra="forbid")

    question: str
    max_turns: int


class Begun(BaseModel):
    """A module begins its work."""

    model_config = ConfigDict(extra="forbid")

    module: str
    turn: int
    tool: str = ""


class LiveStatusFile:
    """The file of one run: `with LiveStatusFile(trace, question, max_turns) as running: running.show(event)`.

    Where it cannot be written, the run goes on and nobody watches.
    """

    def __init__(self, trace: Path, question: str, max_turns: int) -> None:
        self._path = trace.with_name(trace.name + SUFFIX)
        self._opening = Opening(question=question, max_turns=max_turns)

    def __enter__(self) -> "LiveStatusFile":
        with suppress(OSError):
            self._path.unlink(missing_ok=True)  # of a run that was killed
        self._add(self._opening)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def show(self, event: Event) -> None:
        """Adds what has happened."""
        if isinstance(event, Started):
            self._add(Begun(module=event.module, turn=event.turn, tool=event.tool))
        elif isinstance(event, TraceTurn):
            self._add(event)

    def _add(self, record: BaseModel) -> None:
        with suppress(OSError), self._path.open("ab") as file:
            file.write(to_line(record).encode() + b"\n")
