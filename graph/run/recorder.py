"""Modules and calls of a run, with times, prompts and replies: a line of a file beside the traces.

The calls of `traces.jsonl` are in `traces.calls.jsonl`, so that reading and searching traces stays fast. A line names
its trace by a hash of the trace's line. Prompts of later turns repeat those of earlier ones, so each message of a run
is stored once.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Literal
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, ConfigDict, Field

from agentflow.graph.tracing.operation import Operation
from agentflow.tools.json_codec import to_json
from agentflow.tools.redaction import redacted_data

SUFFIX = ".calls.jsonl"
ROLES = {"human": "user", "ai": "assistant"}


class Message(BaseModel):
    """A message of a prompt, or a reply."""

    model_config = ConfigDict(frozen=True)

    role: str
    """system, user, assistant or tool."""
    text: str
    """The text; a native tool call is a line of JSON in it."""


class Span(BaseModel):
    """A module of the graph that ran, or a call of a model or a tool in one."""

    kind: Literal["module", "model_call", "tool_call"]
    name: str
    """Name of the module, the tool, or the model as its server reports it."""
    module: str
    """Module that it belongs to; "tools" for the model behind tools."""
    turn: int | None = None
    """Number of the turn from 1; None outside turns."""
    parent: int | None = None
    """Number of the span around it."""
    start: float
    """Seconds from the start of the run."""
    seconds: float = 0.0
    error: str = ""
    """Class of the failure."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars, where the server reports them."""
    finish_reason: str = ""
    prompt: list[int] = Field(default_factory=list)
    """The prompt of a model call: numbers of messages."""
    replies: list[int] = Field(default_factory=list)
    """The replies of a model call: numbers of messages."""


class RunCalls(BaseModel):
    """All spans of a run, by start."""

    spans: list[Span]
    messages: list[Message]


class Recorder:
    """Sink that records the spans of a run."""

    def __init__(self, *, texts: bool = True) -> None:
        """Record prompts and replies too, or not."""
        self._texts = texts
        self._start = time.perf_counter()
        self._spans: list[Span] = []
        self._numbers: dict[UUID, int] = {}
        self._open: dict[int, Span] = {}
        self._messages: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()  # a tool may call a model from a thread of its own

    def begin(self, operation: Operation) -> None:
        """Add a span."""
        if operation.kind in ("run", "turn", "step"):
            return
        with self._lock:
            self._numbers[operation.id] = number = len(self._spans)
            span = Span(
                kind=operation.kind,
                name=operation.name,
                module=operation.module,
                turn=operation.turn,
                parent=self._numbers.get(operation.parent.id) if operation.parent else None,
                start=round(operation.clock - self._start, 4),
            )
            self._spans.append(span)
            self._open[number] = span

    def end(self, operation: Operation) -> None:
        """Complete the span."""
        with self._lock:
            if (number := self._numbers.get(operation.id)) is None:
                return
            span = self._open.pop(number)
            span.seconds, span.error = round(operation.seconds, 4), operation.error
            if operation.kind == "model_call":
                self._add_facts(span, operation)

    def calls(self) -> RunCalls:
        """Return the spans so far; those under way last until now."""
        with self._lock:
            for span in self._open.values():
                span.seconds = round(time.perf_counter() - self._start - span.start, 4)
            messages = [Message(role=role, text=text) for role, text in self._messages]
            return RunCalls(spans=list(self._spans), messages=messages)

    def _add_facts(self, span: Span, operation: Operation) -> None:
        replies = operation.replies
        if replies:
            span.name = str(replies[0].response_metadata.get("model_name") or span.name)
        # LangChain leaves a reply from its cache without counts: {"total_cost": 0}.
        used = [usage for reply in replies if (usage := reply.usage_metadata) and "input_tokens" in usage]
        if used:
            span.input_tokens = sum(one["input_tokens"] for one in used)
            span.output_tokens = sum(one["output_tokens"] for one in used)
        costs = [cost for reply in replies if (cost := cost_of(reply)) is not None]
        span.cost = sum(costs) if costs else None
        reasons = (reply.response_metadata.get("finish_reason") for reply in replies)
        span.finish_reason = ", ".join(str(reason) for reason in reasons if reason)
        if self._texts:
            span.prompt, span.replies = self._kept(operation.prompt), self._kept(replies)

    def _kept(self, messages: Iterable[BaseMessage]) -> list[int]:
        """Return the numbers of messages."""
        found = ((ROLES.get(one.type, one.type), text_of(one)) for one in messages)
        return [self._messages.setdefault(message, len(self._messages)) for message in found]


def cost_of(reply: AIMessage) -> float | None:
    """Return the dollars of a reply where the server reports them, as routers between providers do."""
    reported = reply.response_metadata.get("token_usage")
    cost = reported.get("cost") if isinstance(reported, dict) else None
    return cost if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < inf else None


def calls_file(traces: Path) -> Path:
    """Return the path of the calls of a file of traces."""
    return traces.with_name(traces.name.removesuffix(".jsonl") + SUFFIX)


def hash_of(line: bytes) -> str:
    """Return the hash by which calls name the line of their trace."""
    return hashlib.sha256(line.strip()).hexdigest()[:16]


def calls_line(calls: RunCalls, trace: bytes) -> bytes:
    """Return the calls of a trace as a line of ASCII JSON without secrets. `trace` is the line of the trace."""
    found = {"trace": hash_of(trace), **redacted_data(calls.model_dump(exclude_defaults=True))}
    return to_json(found).encode() + b"\n"


def text_of(message: BaseMessage) -> str:
    """Return a message as text; each native tool call is a line of JSON."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    lines = [str(message.text)] if message.text or not calls else []
    lines += [json.dumps({"name": call["name"], "arguments": call["args"]}) for call in calls]
    return "\n".join(lines)
