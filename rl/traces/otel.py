"""OpenTelemetry exports: spans of the GenAI conventions in OTLP JSON, as a collector's file exporter writes them.

A file holds one export request a line, or is one document. Spans of a trace may be anywhere in it. An outermost agent
or workflow span is a run; a trace without one is a run as a whole. The path of a model call consists of the nodes and
inner agents around it, as `agentflow.graph.tracing` exports them.

The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentflow.graph.tracing.observer import UNNAMED
from agentflow.rl.traces.episode import Conversation, Episode, Message
from agentflow.rl.traces.fields import asked_in
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.lines import CUT_OFF, document_spans, first_rows, opened, rows
from agentflow.rl.traces.messages import UnreadableMessage, chat_messages, text_of
from agentflow.rl.traces.scores import reward_of
from agentflow.rl.traces.spool import Spool

REQUEST = "resourceSpans"
"""Field of an export request."""

HEAD = 4096
"""Bytes of a document in which that field begins."""

AGENTS = ("invoke_agent", "invoke_workflow", "create_agent")
CALLS = ("chat", "generate_content", "text_completion")
DETAILS, SCORE = "gen_ai.client.inference.operation.details", "gen_ai.evaluation.result"
"""Names of events: the content of a call, and a score."""


@dataclass
class Span:
    """A span with its attributes decoded."""

    place: str
    id: str
    parent: str
    name: str
    start: int
    """Nanoseconds since the epoch."""
    attributes: dict[str, Any]
    scores: dict[str, Any]
    failed: bool = False

    @property
    def kind(self) -> str:
        """Return the operation of the conventions; "" if there is none."""
        return str(self.attributes.get("gen_ai.operation.name", ""))

    def messages(self, which: str) -> list[Message]:
        """Return the input or output messages; [] without content. Raises UnreadableMessage."""
        found = self._json(f"gen_ai.{which}.messages")
        return chat_messages(found) if found else []

    @property
    def prompt(self) -> list[Message]:
        """Return the input messages after the system instructions. Raises UnreadableMessage."""
        parts = self._json("gen_ai.system_instructions")
        system = chat_messages({"role": "system", "parts": parts}) if isinstance(parts, list) and parts else []
        return system + self.messages("input")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Return the tools that were offered."""
        found = self._json("gen_ai.tool.definitions")
        return [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []

    def _json(self, name: str) -> Any:
        found = self.attributes.get(name)
        if not isinstance(found, str):
            return found
        try:
            return json.loads(found)
        except (ValueError, RecursionError) as error:
            raise UnreadableMessage from error


def read(path: Path, ledger: Ledger) -> Iterator[Episode]:
    """Yield the episodes of a file, in the order in which their traces begin in it. Raises TracesError."""
    with Spool() as spool:
        for place, found in _spans(path, ledger):
            if isinstance(found, dict) and isinstance(trace := found.get("traceId"), str) and trace.isascii():
                ledger.read["spans"] += 1
                spool.add(trace, [place, found])
            else:
                ledger.drop(Reason.OTHER_FORMAT, place)
        for trace_spans in spool.groups():
            yield from _Trace(_decoded(trace_spans, ledger), ledger).episodes()


def _spans(path: Path, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    if is_document(path):
        yield from document_spans(path, ledger)
        return
    for place, row in rows(path, ledger):
        found = [
            span
            for resource in _list(row, REQUEST)
            for scope in _list(resource, "scopeSpans")
            for span in _list(scope, "spans")
        ]
        if REQUEST not in row:
            ledger.drop(Reason.OTHER_FORMAT, place)
        yield from ((place, span) for span in found)


def is_document(path: Path) -> bool:
    """Return whether a file is an export in one document instead of lines. Raises TracesError."""
    if any(REQUEST in row for row in first_rows(path)):
        return False
    with opened(path) as file:
        try:
            return f'"{REQUEST}"'.encode() in file.read(HEAD)
        except CUT_OFF:
            return False


def _list(found: Any, name: str) -> list[Any]:
    inner = found.get(name) if isinstance(found, dict) else None
    return inner if isinstance(inner, list) else []


def _decoded(found: Sequence[Any], ledger: Ledger) -> Iterator[Span]:
    for place, span in found:
        attributes, scores = _attributes(span), dict[str, Any]()
        for event in _list(span, "events"):
            name, inner = (event.get("name"), _attributes(event)) if isinstance(event, dict) else ("", {})
            if name == DETAILS:
                attributes |= inner
            elif name == SCORE:
                label = inner.get("gen_ai.evaluation.score.label")
                scores[str(inner.get("gen_ai.evaluation.name", ""))] = inner.get("gen_ai.evaluation.score.value", label)
        start, status = span.get("startTimeUnixNano"), span.get("status")
        failed = isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")
        id, parent, name = (str(span.get(field) or "") for field in ("spanId", "parentSpanId", "name"))
        began = int(start) if str(start).isdecimal() else 0
        yield Span(place, id, parent, name, began, attributes, scores, failed or "error.type" in attributes)


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    pairs = (pair for pair in _list(holder, "attributes") if isinstance(pair, dict))
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}


def _value(value: Any) -> Any:
    """Decode OTLP's AnyValue."""
    match value:
        case {"stringValue": found} | {"boolValue": found} | {"doubleValue": found}:
            return found
        case {"intValue": found}:
            return int(found) if str(found).lstrip("-").isdecimal() else None
        case {"arrayValue": inner}:
            return [_value(one) for one in _list(inner, "values")]
        case {"kvlistValue": inner}:
            return _attributes({"attributes": _list(inner, "values")})
    return None


class _Trace:
    """The spans of one trace."""

    def __init__(self, spans: Iterator[Span], ledger: Ledger) -> None:
        self._ledger = ledger
        self.spans = sorted({span.id: span for span in spans}.values(), key=lambda span: span.start)
        self._by_id = {span.id: span for span in self.spans}

    def episodes(self) -> Iterator[Episode]:
        """Yield an episode for each outermost agent span, or one for all if there is none."""
        around = {span.id: self._around(span) for span in self.spans}
        agents = [span for span in self.spans if span.kind in AGENTS]
        roots = [span for span in agents if not any(one.kind in AGENTS for one in around[span.id])]
        calls = [span for span in self.spans if span.kind in CALLS]
        for root in roots:
            yield from self._episode(root, [span for span in calls if root in around[span.id]], around)
        if not roots and calls:
            yield from self._episode(None, calls, around)

    def _around(self, span: Span) -> list[Span]:
        """Return the spans around this one, the outermost first."""
        found: list[Span] = []
        while (parent := self._by_id.get(span.parent)) and parent not in found:
            found.insert(0, parent)
            span = parent
        return found

    def _episode(self, root: Span | None, calls: list[Span], around: dict[str, list[Span]]) -> Iterator[Episode]:
        self._ledger.read["runs"] += 1
        place = (root or calls[0]).place
        conversations = [found for span in calls if (found := self._conversation(span, root, around[span.id]))]
        try:
            given, made = (root.messages("input"), root.messages("output")) if root else ([], [])
        except UnreadableMessage:
            given, made = [], []
        first = conversations[0].messages[:-1] if conversations else []
        question, inputs = asked_in(given or first)
        answer = text_of(made, "assistant")
        if not made and conversations and not (root and root.failed):
            answer = conversations[-1].messages[-1]["content"]
        last = root or calls[0]
        scores = {name: value for span in [*calls, last] for name, value in span.scores.items()}
        reward = reward_of(scores, place, self._ledger)
        yield Episode(place, question, answer, run=last.id, inputs=inputs, reward=reward, calls=conversations)

    def _conversation(self, span: Span, root: Span | None, around: list[Span]) -> Conversation | None:
        if span.failed:
            return None
        try:
            prompt, replies = span.prompt, span.messages("output")
            if not prompt or len(replies) != 1:
                return None
            return Conversation(_path(root, around), [*prompt, *replies], span.tools)
        except UnreadableMessage:
            self._ledger.drop(Reason.NOT_TEXT, span.place)
            return None


def _path(root: Span | None, around: Sequence[Span]) -> str:
    """Return the nodes and the inner agents around a call, below the run's own span; else the run's agent."""
    inner = around[around.index(root) + 1 :] if root else around
    path: list[str] = []
    for span in inner:
        name = span.name if "agentflow.module" in span.attributes and not span.kind else ""
        if span.kind in AGENTS:
            name = _agent(span)
        if name and name != UNNAMED and name not in path[-1:]:
            path.append(name)
    return "/".join(path) or (_agent(root) if root and _agent(root) != UNNAMED else "")


def _agent(span: Span) -> str:
    return str(span.attributes.get("gen_ai.agent.name") or span.attributes.get("gen_ai.workflow.name") or "")
