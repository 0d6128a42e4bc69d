"""Chat rows, one conversation a line: {"messages": [...]} with a score, a thumb or a corrected answer beside them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentflow.rl.traces.episode import Conversation, Episode
from agentflow.rl.traces.fields import asked_in
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.lines import rows
from agentflow.rl.traces.messages import UnreadableMessage, chat_messages, text_of
from agentflow.rl.traces.scores import reward_of

SCORES = ("correct", "reward", "score", "rating", "feedback", "thumbs", "thumb")
GOLDS = ("answer", "gold", "reference")
EDITS = ("edit", "edited", "correction", "corrected")


def read(path: Path, ledger: Ledger) -> Iterator[Episode]:
    """Yield the episodes of a file. Raises TracesError."""
    for place, row in rows(path, ledger):
        if "messages" not in row:
            ledger.drop(Reason.OTHER_FORMAT, place)
            continue
        ledger.read["runs"] += 1
        try:
            yield _episode(row, place, ledger)
        except UnreadableMessage:
            ledger.drop(Reason.NOT_TEXT, place)


def _episode(row: dict[str, Any], place: str, ledger: Ledger) -> Episode:
    messages = chat_messages(row["messages"])
    question, inputs = asked_in(messages)
    replied = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    tools = (
        [tool for tool in row.get("tools") or () if isinstance(tool, dict)]
        if isinstance(row.get("tools"), list)
        else []
    )
    call = Conversation(str(row.get("node") or ""), messages[: replied + 1], tools)
    return Episode(
        place,
        question,
        answer=text_of(messages[last + 1 :], "assistant"),
        id=str(row.get("id") or ""),
        inputs=inputs,
        gold=_text(row, GOLDS),
        edit=_text(row, EDITS),
        reward=reward_of({name: row.get(name) for name in SCORES}, place, ledger),
        calls=[call] if replied > last >= 0 else [],
    )


def _text(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return the first text by one of `names`, which may be a message."""
    for name in names:
        match row.get(name):
            case str(text) | {"content": str(text)}:
                return text
            case bool():
                continue
            case int() | float() as number:
                return str(number)
    return ""
