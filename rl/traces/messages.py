"""Messages, questions and answers of the sources in one form: OpenAI's, LangChain's and OpenTelemetry's."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentflow.rl.traces.episode import Message
from agentflow.rl.traces.lines import listed

ROLES = {role: role for role in ("system", "user", "assistant", "tool")}
ROLES |= {"developer": "system", "human": "user", "ai": "assistant"}
QUESTIONS = ("question", "input", "query", "prompt")
ANSWERS = ("answer", "output", "result", "response", "content", "text")
OUTPUTS = ("generations", "choices", "message", "messages")


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
    used = [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_use"]
    if calls := [_call(call) for call in listed(fields, "tool_calls") or used]:
        message["tool_calls"] = calls
    for name in ("tool_call_id", "name", "reasoning_content"):
        if isinstance(value := fields.get(name), str) and value:
            message[name] = value
    yield message


def _texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, Mapping) and block.get("type") == "text" and isinstance(text := block.get("text"), str):
            yield text
        elif not isinstance(block, Mapping) or block.get("type") not in ("tool_use", "reasoning", "thinking"):
            raise UnreadableMessage


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


def asked(given: Any) -> tuple[str, dict[str, Any] | None]:
    """Return the question in the inputs of a run, and these where they are more. Raises UnreadableMessage."""
    if isinstance(given, str):
        return given, None
    if not isinstance(given, Mapping):
        return "", None
    if "messages" in given:
        return asked_in(chat_messages(given["messages"]))
    question = _named(given, QUESTIONS)
    if given.keys() == {"question"}:
        return question, None
    inputs = {str(name): value for name, value in given.items()}
    return question or (json.dumps(inputs) if inputs else ""), inputs or None


def asked_in(messages: Sequence[Message]) -> tuple[str, dict[str, Any] | None]:
    """Return the last question of a conversation, and the input with what was said before it, prompts aside."""
    question = text_of(messages, "user")
    last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    said = [message for message in messages[: last + 1] if message["role"] != "system"]
    return question, {"messages": said} if len(said) > 1 else None


def answered(given: Any) -> str:
    """Return the text that the outputs of a run end in; "" if they have none."""
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        return ""
    if found := _named(given, ANSWERS):
        return found
    try:
        return text_of(chat_messages(given["messages"]) if "messages" in given else [reply(given)], "assistant")
    except UnreadableMessage:
        return ""


def reply(outputs: Any) -> Message:
    """Return the reply of a model call from LangChain's or OpenAI's outputs, or a message. Raises UnreadableMessage."""
    found = outputs
    while isinstance(found, Mapping | list):
        inner = found[:1] if isinstance(found, list) else [found[name] for name in OUTPUTS if name in found]
        if not inner:
            break
        found = inner[0]
    messages = chat_messages(found) if isinstance(found, Mapping) else []
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        raise UnreadableMessage
    return messages[0]


def _named(given: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first text by one of `names`, else the only text there is; "" if that is not clear."""
    for name in names:
        if isinstance(value := given.get(name), str) and value.strip():
            return value
    values = [value for value in given.values() if isinstance(value, str) and value.strip()]
    return values[0] if len(given) == 1 and values else ""
