"""A question that is being answered: what `agentflow solve --trace` writes beside the trace until it has the answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow.evals.live_status import SUFFIX, RunStart
from agentflow.evals.rollout import Started
from agentflow.evals.task import Task
from agentflow.evals.trace import Trace, TraceTurn
from agentflow.view.lines import Place, Tail
from agentflow.view.rows import Row, trace_cells
from agentflow.view.sources import Source

__all__ = ["SUFFIX", "Running"]


class Running(Source):
    """The file of a run under way."""

    kind = "running"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name.removesuffix(SUFFIX))
        self._tail = Tail(path)
        self._broken = 0
        self.start: RunStart | None = None
        self.started: Started | None = None
        self.turns: list[TraceTurn] = []

    def refresh(self) -> tuple[bool, bool]:
        """Reads on."""
        news = self._tail.look()
        if news.again:
            self.start, self.started, self.turns, self._broken = None, None, [], 0
        for _, line in news.lines or ():
            self._broken += not self._take(line)
        return bool(news), news.more

    def _take(self, line: bytes) -> bool:
        for kind in (Started, TraceTurn, RunStart):
            try:
                found = kind.model_validate_json(line)
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
        """What there is of it."""
        task = Task.from_question(self.start.question if self.start else "")
        return Trace(task=task, status="failed", turns=self.turns, error="it has not ended")

    def rows(self) -> Sequence[tuple[str, Row]]:
        """The one that there is."""
        trace, outcome = self.trace, "running" if self.live else "failed"
        return [("0", Row(Place(self.path, 0, 0), (), trace.task.question, outcome, **trace_cells(trace)))]

    @property
    def changed(self) -> float:
        """When it was written last."""
        return self._tail.changed

    @property
    def broken(self) -> int:
        """Lines that could not be read."""
        return self._broken

    @property
    def unfinished(self) -> bool:
        """Always: the file goes when the run ends."""
        return True

    def summary(self) -> dict[str, Any]:
        """With the question and the module at work."""
        question = self.start.question[:200] if self.start else ""
        module = self.started.module if self.started else ""
        return {**super().summary(), "what": question, "ended": 0, "module": module}

    def max_turns(self, row: Row) -> int:
        """As the run was told."""
        return self.start.max_turns if self.start else super().max_turns(row)
