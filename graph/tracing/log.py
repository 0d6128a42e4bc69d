"""Operations as log records: one line of JSON when each is over, through Python's logging.

The records are on the logger `agentflow.events`, which an application can configure. They contain no prompts
and answers.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from agentflow.graph.tracing.operation import Operation
from agentflow.tools.redaction import MESSAGE, redacted, redacted_data

LOGGER = "agentflow"
EVENTS = f"{LOGGER}.events"
STDERR = "-"

_FACTS = {
    "gen_ai.provider.name": "provider",
    "gen_ai.request.model": "model",
    "gen_ai.response.model": "answered_by",
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.tool.name": "tool",
    "agentflow.signal": "signal",
    "agentflow.status": "status",
}


class LogSink:
    """Writes a record at the end of every operation: at level INFO, at WARNING if it failed."""

    def __init__(self) -> None:
        self._log = logging.getLogger(EVENTS)

    def begin(self, operation: Operation) -> None:
        """Do nothing; the record is written at the end."""

    def end(self, operation: Operation) -> None:
        """Write the record."""
        level = logging.WARNING if operation.error else logging.INFO
        self._log.log(level, operation.kind, extra={"fields": _fields(operation)})


def _fields(operation: Operation) -> dict[str, Any]:
    """Return the fields of an operation's line, without empty ones."""
    fields = {
        "run": str(operation.run.id),
        "thread": operation.thread,
        "module": operation.module,
        "turn": operation.turn,
        "seconds": round(operation.seconds, 3),
        **{short: operation.facts.get(name) for name, short in _FACTS.items()},
        "error": operation.error,
        "message": redacted(" ".join(operation.message.split()), MESSAGE),
    }
    if operation.kind == "run":
        fields["graph"] = operation.name
    return {name: value for name, value in fields.items() if value not in (None, "")}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON in ASCII, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, event and the event's fields; for other records, logger and message."""
        fields = getattr(record, "fields", None)
        own = {"event": record.msg, **fields} if fields else {"logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[1]:
            own["error"], own["message"] = type(record.exc_info[1]).__name__, str(record.exc_info[1])
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps(redacted_data({"time": time, "level": record.levelname.lower(), **own}), default=str)


@contextmanager
def written_to(where: str) -> Iterator[None]:
    """Also write AgentFlow's log to that file inside the block, or to stderr for "-". Raises OSError."""
    log = logging.getLogger(LOGGER)
    handler = logging.StreamHandler(sys.stderr) if where == STDERR else logging.FileHandler(where, encoding="utf-8")
    handler.setFormatter(JsonFormatter())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        if where != STDERR:
            handler.close()
