"""Chat rows, one conversation a line: {"messages": [...]} with a score, a thumb or a corrected answer beside them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentflow.rl.traces.episode import Dropped, DropReason, Episode
from agentflow.rl.traces.lines import objects
from agentflow.rl.traces.messages import UnreadableMessage, asked_in, chat_messages, text_of
from agentflow.rl.traces.scores import reward_of

SCORES = ("correct", "reward", "score", "rating", "feedback", "thumbs", "thumb")


def read(path: Path, dropped: Dropped) -> Iterator[Episode]:
    """Yield the episodes of a file. Raises TracesError."""
    for place, row in objects(path, dropped):
        if "messages" not in row:
            dropped[DropReason.OTHER_FORMAT].append(place)
            continue
        try:
            messages = chat_messages(row["messages"])
        except UnreadableMessage:
            dropped[DropReason.NOT_TEXT].append(place)
            continue
        question, inputs = asked_in(messages)
        last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
        yield Episode(
            place,
            question,
            answer=text_of(messages[last + 1 :], "assistant"),
            id=str(row.get("id") or ""),
            inputs=inputs,
            gold=_text(row, "answer", "gold", "reference"),
            edit=_text(row, "edit", "edited", "correction", "corrected"),
            reward=reward_of({name: row.get(name) for name in SCORES}, place, dropped),
        )


def _text(row: dict[str, Any], *names: str) -> str:
    """Return the first text by one of `names`, which may be a message."""
    for name in names:
        match row.get(name):
            case str(text) | {"content": str(text)}:
                return text
            case int() | float() as number if not isinstance(number, bool):
                return str(number)
    return ""
