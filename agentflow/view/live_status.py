"""A run that has not ended, from the file that `agentflow solve --trace` writes next to the trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow.graph.run.live_status import SUFFIX, RunStart
from agentflow.graph.run.run_events import Started
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn
from agentflow.tools.json_codec import model_from_json
from agentflow.view.lines import Place, Tail
from agentflow.view.rows import Row, trace_cells
from agentflow.view.sources import Source

__all__ = ["SUFFIX", "Running"]


class Running(Source):
    """The status file of a run."""

    kind = "running"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name.removesuffix(SUFFIX))
        self._tail = Tail(path)
        self._broken = 0
        self.start: RunStart | None = None
        self.started: Started | None = None
        self.turns: list[TraceTurn] = []

    def refresh(self) -> tuple[bool, bool]:
        """Read new lines."""
        news = self._tail.look()
        if news.again:
            self.start, self.started, self.turns, self._broken = None, None, [], 0
        for _, line in news.lines or ():
            self._broken += not self._take(line)
        return bool(news), news.more

    def _take(self, line: bytes) -> bool:
        for kind in (Started, TraceTurn, RunStart):
            try:
                found = model_from_json(kind, line)
            except ValidationError:
                continue
            if isinstance(found, Started):
                self.started = found
            elif isinstance(found, TraceTurn):
                self.turns.append(found)
            elif isinstance(found, RunStart):
                self.start = found
            return True
        return False

    @property
    def trace(self) -> Trace:
        """Return the turns so far as a trace."""
        task = Task.from_question(self.start.question if self.start else "")
        return Trace(task=task, status="failed", turns=self.turns, error="it has not ended")

    def rows(self) -> Sequence[tuple[str, Row]]:
        """Return the only row."""
        trace, outcome = self.trace, "running" if self.live else "failed"
        return [("0", Row(Place(self.path, 0, 0), (), trace.task.question, outcome, **trace_cells(trace)))]

    @property
    def changed(self) -> float:
        """Return the time of the last write."""
        return self._tail.changed

    @property
    def broken(self) -> int:
        """Return the number of invalid lines."""
        return self._broken

    @property
    def unfinished(self) -> bool:
        """Return True: the file is deleted when the run ends."""
        return True

    def summary(self) -> dict[str, Any]:
        """Return the summary with the question and the current module."""
        question = self.start.question[:200] if self.start else ""
        module = self.started.module if self.started else ""
        return {**super().summary(), "what": question, "ended": 0, "module": module}

    def max_turns(self, row: Row) -> int:
        """Return the run's limit of turns."""
        return self.start.max_turns if self.start else super().max_turns(row)
