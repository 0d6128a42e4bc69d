"""A question that is being answered: what `agentflow solve --trace` writes beside the trace until it has the answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow.evals.live_status import SUFFIX, Begun, Opening
from agentflow.evals.trace import Trace, TraceTurn
from agentflow.view.lines import Place, Tail
from agentflow.view.rows import Row
from agentflow.view.sources import Source

__all__ = ["SUFFIX", "Running"]


class Running(Source):
    """The file of a run under way."""

    kind = "running"

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, name.removesuffix(SUFFIX))
        self._tail = Tail(path)
        self._broken = 0
        self.opening: Opening | None = None
        self.begun: Begun | None = None
        self.turns: list[TraceTurn] = []

    def refresh(self) -> tuple[bool, bool]:
        """Reads on."""
        news = self._tail.look()
        if news.again:
            self.opening, self.begun, self.turns, self._broken = None, None, [], 0
        for _, line in news.lines or ():
            self._broken += not self._take(line)
        return bool(news), news.more

    def _take(self, line: bytes) -> bool:
        for kind in (Begun, TraceTurn, Opening):
            try:
                found = kind.model_validate_json(line)
            except ValidationError:
                continue
            if isinstance(found, Begun):
                self.begun = found
            elif isinstance(found, TraceTurn):
                self.turns.append(found)
            elif isinstance(found, Opening):
                self.opening = found
            return True
        return False

    @property
    def trace(self) -> Trace:
        """What there is of it."""
        question = self.opening.question if self.opening else ""
        return Trace(question=question, status="failed", turns=self.turns, error="it has not ended")

    def rows(self) -> Sequence[tuple[str, Row]]:
        """The one that there is."""
        trace, place = self.trace, Place(self.path, 0, 0)
        tools = tuple(turn.tool for turn in self.turns)
        errors = tuple(str(turn.result.error or "") for turn in self.turns)
        texts = {"question": trace.question, "answer": "", "gold": "", "family": "", "benchmark": ""}
        outcome = "running" if self.live else "failed"
        numbers = {"turns": len(tools), "seconds": 0.0, "tokens": 0}
        return [("0", Row(place, (), trace.question, outcome, **texts, **numbers, tools=tools, errors=errors))]  # type: ignore[arg-type]

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
        question = self.opening.question[:200] if self.opening else ""
        return {**super().summary(), "what": question, "ended": 0, "module": self.begun.module if self.begun else ""}

    def max_turns(self, row: Row) -> int:
        """As the run was told."""
        return self.opening.max_turns if self.opening else super().max_turns(row)
