"""Messages of the sources in one form: OpenAI's, LangChain's in all its serialisations, and OpenTelemetry's parts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentflow.rl.traces.episode import Message

ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
}


class UnreadableMessage(ValueError):
    """A message has no known role, or parts that are not text."""


def chat_messages(found: Any) -> list[Message]:
    """Return a list of messages, or one message, as chat templates take them. Raises UnreadableMessage."""
    if isinstance(found, Mapping) or _is_pair(found):
        return list(_read(found))
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UnreadableMessage
    if len(found) == 1 and isinstance(found[0], list) and not _is_pair(found[0]):
        found = found[0]  # LangChain's batch of one conversation
    return [message for one in found for message in _read(one)]


def text_of(messages: Sequence[Message], role: str) -> str:
    """Return the text of the last message of `role`; "" if there is none."""
    return next((message["content"] for message in reversed(messages) if message["role"] == role), "")


def _is_pair(found: Any) -> bool:
    """Return whether this is a message as a role and a text."""
    return isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(one, str) for one in found)


def _read(found: Any) -> Iterator[Message]:
    if _is_pair(found):
        found = {"role": found[0], "content": found[1]}
    if not isinstance(found, Mapping):
        raise UnreadableMessage
    fields, kind = found, found.get("role") or found.get("type")
    if isinstance(inner := found.get("kwargs"), Mapping) and isinstance(name := found.get("id"), list) and name:
        fields, kind = inner, re.sub(r"Message(Chunk)?$", "", str(name[-1])).lower()
    elif isinstance(inner := found.get("data"), Mapping):
        fields = inner
    role = ROLES.get(str(kind).removesuffix("MessageChunk").lower())
    if role is None:
        raise UnreadableMessage
    if isinstance(parts := fields.get("parts"), list):
        yield from _of_parts(role, parts)
        return
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    message: Message = {"role": role, "content": "".join(_texts(blocks))}
    calls = [_call(call) for call in fields.get("tool_calls") or ()]
    calls = calls or [
        _call(block) for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"
    ]
    if calls:
        message["tool_calls"] = calls
    for name in ("tool_call_id", "name", "reasoning_content"):
        if isinstance(value := fields.get(name), str) and value:
            message[name] = value
    yield message


def _texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif not isinstance(block, Mapping) or block.get("type") not in ("text", "tool_use", "reasoning", "thinking"):
            raise UnreadableMessage
        elif block["type"] == "text":
            if not isinstance(text := block.get("text"), str):
                raise UnreadableMessage
            yield text


def _of_parts(role: str, parts: Sequence[Any]) -> Iterator[Message]:
    """Yield the messages of OpenTelemetry's parts; each response of a tool is a message of its own."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    responses: list[Message] = []
    for part in parts:
        match part:
            case {"type": "text", "content": str(text)}:
                texts.append(text)
            case {"type": "tool_call"}:
                calls.append(_call(part))
            case {"type": "tool_call_response"}:
                given = part.get("response", part.get("result", ""))
                content = given if isinstance(given, str) else json.dumps(given)
                responses.append({"role": "tool", "content": content, "tool_call_id": str(part.get("id") or "")})
            case {"type": "reasoning"}:
                pass
            case _:
                raise UnreadableMessage
    if texts or calls or not responses:
        yield {"role": role, "content": "\n".join(texts), **({"tool_calls": calls} if calls else {})}
    yield from responses


def _call(found: Any) -> dict[str, Any]:
    """Return a tool call with its arguments as an object."""
    if not isinstance(found, Mapping):
        raise UnreadableMessage
    function = found.get("function")
    named = function if isinstance(function, Mapping) else found
    arguments: Any = next((named[key] for key in ("arguments", "args", "input") if key in named), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise UnreadableMessage from error
    if not isinstance(arguments, dict) or not isinstance(name := named.get("name"), str):
        raise UnreadableMessage
    return {"type": "function", "id": str(found.get("id") or ""), "function": {"name": name, "arguments": arguments}}
