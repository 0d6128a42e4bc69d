"""OpenTelemetry exports: spans in OTLP JSON, of the conventions for generative AI or of OpenInference's, or both.

Spans of a trace may be anywhere in the file. An outermost agent, workflow or chain is a run; a trace without one is a
run as a whole, from the prompt of its first model call to the reply of its last.

The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/ and
https://arize-ai.github.io/openinference/spec/semantic_conventions.html
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentflow.rl.traces.episode import Dropped, DropReason, Episode, Message
from agentflow.rl.traces.lines import listed, objects
from agentflow.rl.traces.messages import UnreadableMessage, answered, asked, asked_in, chat_messages, text_of
from agentflow.rl.traces.scores import reward_of

REQUEST = "resourceSpans"
OPERATION, KIND = "gen_ai.operation.name", "openinference.span.kind"
AGENTS = ("invoke_agent", "invoke_workflow", "create_agent")
CALLS = ("chat", "generate_content", "text_completion")
CONVENTIONS = {"traceloop.": "Traceloop", "langfuse.": "Langfuse"}
"""Other conventions, which are named and not read, by the beginning of their attributes."""
BLOCK = "message_content"
REDACTED = "__REDACTED__"  # what OpenInference writes in place of content that is switched off
DETAILS, SCORE = "gen_ai.client.inference.operation.details", "gen_ai.evaluation.result"  # names of events


@dataclass
class OtelSpan:
    """A span with its attributes decoded."""

    place: str
    id: str
    parent: str
    start: int  # nanoseconds since the epoch
    attributes: dict[str, Any]
    scores: dict[str, Any]
    failed: bool

    @property
    def is_call(self) -> bool:
        """Return whether this is a call of a model."""
        return self.attributes.get(OPERATION) in CALLS or self.attributes.get(KIND) == "LLM"

    @property
    def is_agent(self) -> bool:
        """Return whether this is the run of an agent, or a part of one."""
        return self.attributes.get(OPERATION) in AGENTS or self.attributes.get(KIND) in ("AGENT", "CHAIN")

    def messages(self, which: str) -> list[Message]:
        """Return the input or output messages; [] without content. Raises UnreadableMessage."""
        found = self.json(f"gen_ai.{which}.messages") or [
            _unflattened(message) for message in _items(self.attributes, f"llm.{which}_messages")
        ]
        return chat_messages(found) if found else []

    def value(self, which: str) -> Any:
        """Return what OpenInference says that a run was given or gave; None without content."""
        found = self.attributes.get(f"{which}.value")
        if found == REDACTED or self.attributes.get(f"{which}.mime_type") != "application/json":
            return None if found == REDACTED else found
        return self.json(f"{which}.value")

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
            if not {OPERATION, KIND} & decoded.attributes.keys() and (other := _convention(decoded.attributes)):
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
    id, parent = (str(span.get(field) or "") for field in ("spanId", "parentSpanId"))
    return OtelSpan(place, id, parent, int(start) if start.isdecimal() else 0, attributes, scores, failed)


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
    around = {span.id: _around(span, by_id) for span in spans}
    calls = [span for span in spans if span.is_call]
    outermost = [span for span in spans if span.is_agent and not any(one.is_agent for one in around[span.id])]
    roots: Sequence[OtelSpan | None] = outermost or [None][: len(calls)]
    for root in roots:
        inside = [span for span in calls if root is None or root in around[span.id]]
        conversations = list(filter(None, (_conversation(span, dropped) for span in inside)))
        first = root or calls[0]
        question, inputs, answer = _asked_and_answered(root) if root else ("", None, "")
        if not question and conversations:
            question, inputs = asked_in(conversations[0][:-1])
        if not answer and conversations and not first.failed:
            answer = text_of(conversations[-1], "assistant")
        scores = {name: value for span in [*inside, first] for name, value in span.scores.items()}
        reward = reward_of(scores, first.place, dropped)
        yield Episode(first.place, question, answer, run=first.id, inputs=inputs, reward=reward)


def _around(span: OtelSpan, by_id: Mapping[str, OtelSpan]) -> list[OtelSpan]:
    """Return the spans around one, the innermost first."""
    found = [span]
    while (more := by_id.get(found[-1].parent)) and more not in found:
        found.append(more)
    return found[1:]


def _asked_and_answered(root: OtelSpan) -> tuple[str, dict[str, Any] | None, str]:
    """Return the question of a run, its inputs where they are more, and its answer, as far as its span has them."""
    try:
        given, made = root.value("input"), root.value("output")
        question, inputs = asked(given) if given else asked_in(root.messages("input"))
        return question, inputs, answered(made) if made else text_of(root.messages("output"), "assistant")
    except UnreadableMessage:
        return "", None, ""


def _conversation(span: OtelSpan, dropped: Dropped) -> list[Message]:
    """Return the messages of a model call, its reply last; [] if it failed, or its content was not recorded."""
    try:
        prompt, replies = span.messages("input"), span.messages("output")
    except UnreadableMessage:
        dropped[DropReason.NOT_TEXT].append(span.place)
        return []
    return [] if span.failed or not prompt or len(replies) != 1 else [*prompt, *replies]


def _items(attributes: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list as OpenInference flattens it: `name.0.role` is the role of the first."""
    found = defaultdict[int, dict[str, Any]](dict)
    for key, value in attributes.items():
        number, _, rest = key.removeprefix(f"{name}.").partition(".")
        if key.startswith(f"{name}.") and number.isdecimal():
            found[int(number)][rest] = value
    return [found[number] for number in sorted(found)]


def _unflattened(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of OpenInference's as OpenAI's."""
    blocks = _items(message, "message.contents")
    texts = [{"type": one.get(f"{BLOCK}.type"), "text": one.get(f"{BLOCK}.text")} for one in blocks]
    calls = [
        {
            "id": one.get("tool_call.id"),
            "name": one.get("tool_call.function.name"),
            "arguments": one.get("tool_call.function.arguments", {}),
        }
        for one in _items(message, "message.tool_calls")
    ]
    known = {name: message.get(f"message.{name}") for name in ("role", "name", "tool_call_id")}
    return {**known, "content": texts or message.get("message.content"), "tool_calls": calls}
