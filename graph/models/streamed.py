"""A streamed chat completion, read as a whole one, at a fraction of the cost of LangChain's chunks."""

from typing import Any

from langchain_core.utils._merge import merge_dicts
from pydantic_core import from_json

from agentflow.graph.models.errors import StreamCutError
from agentflow.tools.json_codec import without_lone_surrogates


def events(body: bytes) -> list[str]:
    """Return the data of each event of a stream, without the [DONE] at its end; the body itself if there is none."""
    text = body.decode(errors="replace")
    data = (line[5:].strip() for line in text.split("\n") if line.startswith("data:"))
    return [part for part in data if part != "[DONE]"] or [text]


def completion(body: bytes) -> Any:
    """Return the JSON of a reply, of a streamed one as if it were whole. Raises ValueError, StreamCutError."""
    parts = [from_json(without_lone_surrogates(event)) for event in events(body)]
    if body.lstrip()[:1] in (b"{", b"["):
        return parts[0]
    choices = [choice for part in parts for choice in part.get("choices") or ()]
    choice = _last(choices)
    if "finish_reason" not in choice and not body.rstrip().endswith(b"[DONE]"):
        raise StreamCutError("the stream ended before the reply did")
    deltas = (choice.get("delta") or choice.get("message") or {} for choice in choices)
    message = {**merge_dicts({}, *deltas), "role": "assistant"}  # some servers repeat the role in each part
    return {**_last(parts), "object": "chat.completion", "choices": [{**choice, "message": message}] if choices else []}


def _last(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last value of each field that has one: a name or a count that every part repeats."""
    return {name: value for part in parts for name, value in part.items() if value not in (None, "")}
