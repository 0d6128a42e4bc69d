"""The question and the answer of a run, from inputs and outputs of any form."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentflow.rl.traces.episode import Message
from agentflow.rl.traces.messages import UnreadableMessage, chat_messages, text_of

QUESTIONS = ("question", "input", "query", "prompt")
ANSWERS = ("answer", "output", "result", "response", "content", "text")

Asked = tuple[str, dict[str, Any] | None]
"""The question, and the input of the graph where it is more than the question."""


def asked(given: Any) -> Asked:
    """Return what the inputs of a run ask. Raises UnreadableMessage."""
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


def asked_in(messages: Sequence[Message]) -> Asked:
    """Return the last question of a conversation; what was said before it, prompts aside, is part of the input."""
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
        inner = found[0] if isinstance(found, list) and found else None
        if isinstance(found, Mapping):
            inner = next(
                (found[name] for name in ("generations", "choices", "message", "messages") if name in found), None
            )
        if inner is None:
            break
        found = inner
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
