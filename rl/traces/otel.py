"""OpenTelemetry exports: spans of the GenAI conventions in OTLP JSON, as a collector's file exporter writes them.

Spans of a trace may be anywhere in the file. An outermost agent or workflow span is a run; a trace without one is a run
as a whole. The path of a model call consists of the nodes and inner agents around it, as `agentflow.graph.tracing`
exports them. The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentflow.graph.tracing.observer import UNNAMED
from agentflow.rl.traces.episode import Conversation, Dropped, DropReason, Episode, Message
from agentflow.rl.traces.lines import chain, listed, objects
from agentflow.rl.traces.messages import UnreadableMessage, asked_in, chat_messages, text_of
from agentflow.rl.traces.scores import reward_of

REQUEST = "resourceSpans"
AGENTS = ("invoke_agent", "invoke_workflow", "create_agent")
CALLS = ("chat", "generate_content", "text_completion")
CONVENTIONS = {"openinference.": "OpenInference", "traceloop.": "Traceloop", "langfuse.": "Langfuse"}
"""Other conventions, which are named and not read, by the beginning of their attributes."""
DETAILS, SCORE = "gen_ai.client.inference.operation.details", "gen_ai.evaluation.result"  # names of events


@dataclass
class OtelSpan:
    """A span with its attributes decoded."""

    place: str
    id: str
    parent: str
    name: str
    start: int  # nanoseconds since the epoch
    attributes: dict[str, Any]
    scores: dict[str, Any]
    failed: bool

    @property
    def kind(self) -> str:
        """Return the operation of the conventions."""
        return str(self.attributes.get("gen_ai.operation.name", ""))

    @property
    def agent(self) -> str:
        """Return the name of the agent, "" if there is none."""
        return str(self.attributes.get("gen_ai.agent.name") or self.attributes.get("gen_ai.workflow.name") or "")

    def messages(self, which: str) -> list[Message]:
        """Return the input or output messages; [] without content. Raises UnreadableMessage."""
        found = self.json(f"gen_ai.{which}.messages")
        return chat_messages(found) if found else []

    def json(self, name: str) -> Any:
        """Return an attribute that is JSON or text of it. Raises UnreadableMessage."""
        found = self.attributes.get(name)
        try:
            return json.loads(found) if isinstance(found, str) else found
        except (ValueError, RecursionError) as error:
            raise UnreadableMessage from error


def read(path: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield the episodes of a file, in the order in which their traces begin in it. Raises TracesError."""
    traces = defaultdict[str, dict[str, OtelSpan]](dict)
    for place, request in objects(path, dropped):
        if REQUEST not in request:
            dropped[DropReason.OTHER_FORMAT].append(place)
        scopes = (scope for resource in listed(request, REQUEST) for scope in listed(resource, "scopeSpans"))
        for span in (span for scope in scopes for span in listed(scope, "spans")):
            decoded = _decoded(place, span)
            if not decoded.kind and (other := _convention(decoded.attributes)):
                dropped[DropReason.OTHER_CONVENTION].append(f"{place} ({other})")
            traces[str(span.get("traceId") or place)][decoded.id] = decoded
    for spans in traces.values():
        yield from _episodes(sorted(spans.values(), key=lambda span: span.start), spans, dropped)


def _decoded(place: str, span: Mapping[str, Any]) -> OtelSpan:
    attributes, scores = _attributes(span), dict[str, Any]()
    for event in listed(span, "events"):
        inner = _attributes(event)
        if event.get("name") == DETAILS:
            attributes |= inner
        elif event.get("name") == SCORE:
            label = inner.get("gen_ai.evaluation.score.label")
            scores[str(inner.get("gen_ai.evaluation.name", ""))] = inner.get("gen_ai.evaluation.score.value", label)
    start, status = str(span.get("startTimeUnixNano")), span.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    failed = code in (2, "STATUS_CODE_ERROR") or "error.type" in attributes
    id, parent, name = (str(span.get(field) or "") for field in ("spanId", "parentSpanId", "name"))
    return OtelSpan(place, id, parent, name, int(start) if start.isdecimal() else 0, attributes, scores, failed)


def _convention(attributes: Mapping[str, Any]) -> str:
    return next((CONVENTIONS[start] for name in attributes for start in CONVENTIONS if name.startswith(start)), "")


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {str(pair.get("key")): _value(pair.get("value")) for pair in listed(holder, "attributes")}


def _value(value: Any) -> Any:
    """Decode OTLP's AnyValue."""
    match value:
        case {"stringValue": found} | {"boolValue": found} | {"doubleValue": found}:
            return found
        case {"intValue": found}:
            return int(found) if str(found).lstrip("-").isdecimal() else None
        case {"arrayValue": inner}:
            return [_value(one) for one in listed(inner, "values")]
        case {"kvlistValue": inner}:
            return _attributes({"attributes": listed(inner, "values")})
    return None


def _episodes(spans: Sequence[OtelSpan], by_id: Mapping[str, OtelSpan], dropped: Dropped) -> Iterator[Episode]:
    """Yield an episode for each outermost agent span of a trace, or one for all if there is none."""
    around = {span.id: chain(span, lambda one: by_id.get(one.parent))[:0:-1] for span in spans}
    calls = [span for span in spans if span.kind in CALLS]
    agents = [span for span in spans if span.kind in AGENTS]
    outermost = [span for span in agents if not any(one.kind in AGENTS for one in around[span.id])]
    roots: Sequence[OtelSpan | None] = outermost or [None][: len(calls)]
    for root in roots:
        inside = [span for span in calls if root is None or root in around[span.id]]
        found = [_conversation(span, root, around[span.id], dropped) for span in inside]
        conversations, first = [one for one in found if one], root or calls[0]
        try:
            given, made = (root.messages("input"), root.messages("output")) if root else ([], [])
        except UnreadableMessage:
            given, made = [], []
        question, inputs = asked_in(given or (conversations[0].messages[:-1] if conversations else []))
        last = conversations[-1].messages if conversations and not made and not first.failed else made
        scores = {name: value for span in [*inside, first] for name, value in span.scores.items()}
        reward, answer = reward_of(scores, first.place, dropped), text_of(last, "assistant")
        yield Episode(first.place, question, answer, run=first.id, inputs=inputs, reward=reward, calls=conversations)


def _conversation(
    span: OtelSpan, root: OtelSpan | None, around: list[OtelSpan], dropped: Dropped
) -> Conversation | None:
    try:
        parts, replies = span.json("gen_ai.system_instructions"), span.messages("output")
        system = chat_messages({"role": "system", "parts": parts}) if isinstance(parts, list) and parts else []
        if not (prompt := system + span.messages("input")) or len(replies) != 1 or span.failed:
            return None
        tools = listed({"tools": span.json("gen_ai.tool.definitions")}, "tools")
        return Conversation(_path(root, around), [*prompt, *replies], tools)
    except UnreadableMessage:
        dropped[DropReason.NOT_TEXT].append(span.place)
        return None


def _path(root: OtelSpan | None, around: Sequence[OtelSpan]) -> str:
    """Return the nodes and the inner agents around a call, below the run's own span; else the run's agent."""
    path: list[str] = []
    for span in around[around.index(root) + 1 :] if root else around:
        name = span.name if "agentflow.module" in span.attributes and not span.kind else ""
        name = span.agent if span.kind in AGENTS else name
        if name not in ("", UNNAMED, *path[-1:]):
            path.append(name)
    return "/".join(path) or (root.agent if root and root.agent != UNNAMED else "")
