"""Calls of traces, from the file beside them. It is read when a trace is opened, and only where it has grown."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow.evals.results_store import TRACE_OF_CALLS
from agentflow.graph.run.recorder import RunCalls, calls_file, hash_of
from agentflow.tools.json_codec import model_from_json
from agentflow.view.lines import Place, Tail


class CallsFile:
    """The calls of one file of traces."""

    def __init__(self, traces: Path) -> None:
        self._tail = Tail(calls_file(traces))
        self._places: dict[bytes, Place] = {}

    def of(self, line: bytes) -> dict[str, Any] | None:
        """Return the spans and messages of the trace with this line, None if they were not recorded."""
        self._refresh()
        try:
            content = self._places[hash_of(line).encode()].read()
            return model_from_json(RunCalls, content).model_dump(mode="json")
        except (KeyError, OSError, ValidationError):
            return None

    def _refresh(self) -> None:
        more = True
        while more:
            news = self._tail.look()
            if news.again:
                self._places = {}
            for place, line in news.lines or ():
                if match := TRACE_OF_CALLS.match(line):
                    self._places[match[1]] = place
            more = news.more
