"""Operations as OpenTelemetry spans and metrics, by the semantic conventions for generative AI.

`invoke_agent`, `chat` and `execute_tool` spans are the conventions' own; a graph that is not AgentFlow's is an
`invoke_workflow`, and a module's part of a turn is a span of the module's name with `agentflow.module` and
`agentflow.turn`. A run's parent is the first of: the W3C `traceparent` in the run's metadata, the caller's current
span, the environment's TRACEPARENT. Secrets are redacted in every text.

The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import json
import os
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentflow.graph.tracing.observer import AGENT
from agentflow.graph.tracing.operation import Operation
from agentflow.tools.redaction import MESSAGE, redacted, redacted_data
from agentflow.version import __version__

SCOPE = "agentflow"
_OPERATIONS = {"model_call": "chat", "tool_call": "execute_tool"}
_LONGEST_MESSAGE = 500
"""Most characters of an error's text."""

_TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
_SECOND_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Histogram boundaries that the conventions recommend."""


class SpanSink:
    """Sink that makes a span of every operation, and measures the model calls."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, *, content: bool) -> None:
        """With `content`, spans contain prompts, replies, arguments and results."""
        self._tracer = tracers.get_tracer(SCOPE, __version__)
        meter = meters.get_meter(SCOPE, __version__)
        self._tokens = _histogram(meter, "gen_ai.client.token.usage", "{token}", _TOKEN_BUCKETS)
        self._seconds = _histogram(meter, "gen_ai.client.operation.duration", "s", _SECOND_BUCKETS)
        self._content = content
        self._outside = TraceContextTextMapPropagator().extract(_environment())
        self._spans: dict[UUID, Span] = {}

    def begin(self, operation: Operation) -> None:
        """Start a span as a child of the surrounding operation's."""
        self._spans[operation.id] = self._tracer.start_span(
            redacted(_name(operation)),
            self._context(operation),
            SpanKind.CLIENT if operation.kind == "model_call" else SpanKind.INTERNAL,
            start_time=_nanoseconds(operation.started),
        )

    def end(self, operation: Operation) -> None:
        """End the span with its attributes."""
        span = self._spans.pop(operation.id, None)
        if span is None:  # a turn, or begun before tracing was switched on
            return
        span.set_attributes(redacted_data(_attributes(operation)))
        if self._content and span.is_recording():
            for name, made in operation.content.items():
                span.set_attribute(name, _text(redacted_data(made())))
        if operation.error:
            message = redacted(" ".join(operation.message.split()), MESSAGE)[:_LONGEST_MESSAGE]
            span.set_status(Status(StatusCode.ERROR, message or operation.error))
        span.end(_nanoseconds(operation.ended))
        if operation.kind == "model_call":
            self._measure(operation)

    def _context(self, operation: Operation) -> Context:
        around = self._spans.get(operation.parent.id) if operation.parent else None
        if around:
            return set_span_in_context(around)
        if operation.traceparent:
            return TraceContextTextMapPropagator().extract({"traceparent": operation.traceparent}, Context())
        current = get_current_span().get_span_context().is_valid
        return contexts.get_current() if current else self._outside

    def _measure(self, operation: Operation) -> None:
        facts = operation.facts
        names = ("gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")
        common = {"gen_ai.operation.name": "chat", **{name: facts[name] for name in names if name in facts}}
        common |= {"agentflow.module": operation.module} if operation.module else {}
        common = redacted_data(common)
        failed = {"error.type": operation.error} if operation.error else {}
        self._seconds.record(operation.seconds, {**common, **failed})
        for kind in ("input", "output"):
            if (tokens := facts.get(f"gen_ai.usage.{kind}_tokens")) is not None:
                self._tokens.record(tokens, {**common, "gen_ai.token.type": kind})


def _histogram(meter: Any, name: str, unit: str, buckets: tuple[float, ...]) -> Histogram:
    made: Histogram = meter.create_histogram(name, unit=unit, explicit_bucket_boundaries_advisory=buckets)
    return made


def _name(operation: Operation) -> str:
    if operation.kind == "run":
        return f"{_run_operation(operation)} {operation.name.lower() if _is_agent(operation) else operation.name}"
    return " ".join(filter(None, (_OPERATIONS.get(operation.kind), operation.name)))


def _is_agent(operation: Operation) -> bool:
    return operation.name.lower() == AGENT


def _run_operation(operation: Operation) -> str:
    return "invoke_agent" if _is_agent(operation) else "invoke_workflow"


def _attributes(operation: Operation) -> dict[str, Any]:
    found = dict(operation.facts)
    if operation.kind == "run":
        found["gen_ai.operation.name"] = _run_operation(operation)
        named = "gen_ai.agent.name" if _is_agent(operation) else "gen_ai.workflow.name"
        found[named] = AGENT if _is_agent(operation) else operation.name
    elif operation.kind in _OPERATIONS:
        found["gen_ai.operation.name"] = _OPERATIONS[operation.kind]
    if operation.thread:
        found["gen_ai.conversation.id"] = operation.thread
    if operation.module:
        found["agentflow.module"] = operation.module
    if operation.turn is not None:
        found["agentflow.turn"] = operation.turn
    if operation.error:
        found["error.type"] = operation.error
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _environment() -> Mapping[str, str]:
    """Return the trace context of a parent process, from the variables that OpenTelemetry proposes."""
    return {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
