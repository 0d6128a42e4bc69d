"""Images and files of a conversation: they go to the modules that read the question, if their models take them.

The executor and the tools get text alone, as always. A text file is part of the question, and a program can open it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from agentflow.graph.context import Context, Module
from agentflow.graph.models.loading import aload_model
from agentflow.graph.models.providers import corpus_of
from agentflow.graph.models.spec import misconfigured
from agentflow.tools import python_coder
from agentflow.tools.untrusted_text import one_line

READERS: tuple[Module, ...] = ("analyst", "planner", "verifier", "generator")

INPUTS = {"image": "image_inputs", "file": "pdf_inputs", "audio": "audio_inputs", "video": "video_inputs"}
"""The field of a model's profile that tells whether it takes a kind of content. LangChain knows many models' profiles;
a model without one is asked, and its server may refuse.
"""

DATA_FILES = (".csv", ".tsv", ".json", ".jsonl", ".log")
"""Files of many similar records, of which a model reads the first where a program can read all."""
MAX_SHOWN, LINES = 600, 12
"""Characters up to which such a file is shown as a whole, and the most lines that are shown of a longer one."""

_TEXTS = ("text", "text-plain")


def attached(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the content without text of the last message of a person that has any."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and isinstance(message.content, list):
            blocks = [one for one in message.content if isinstance(one, dict) and one.get("type") not in _TEXTS]
            if blocks:
                return blocks
    return []


def texts(message: BaseMessage) -> str:
    """Return the text of a message, and of the text files in it that have no name."""
    unnamed = [text for name, text in _text_files([message]) if not name]
    return "\n\n".join(part for part in [message.text.strip(), *unnamed] if part.strip())


def with_files(question: str, messages: Sequence[BaseMessage], context: Context) -> str:
    """Return a question with the text files of its conversation; of a long table its first lines, where a program can
    open it.
    """
    shown, can_open = [question], "python_coder" in context.tools
    for name, text in openable(messages).items():
        heading = f"The file {name}, which a program can open" if can_open else name
        if can_open and len(text) > MAX_SHOWN and name.lower().endswith(DATA_FILES):
            heading += f", has {len(text.splitlines())} lines, and begins with"
            text = "\n".join(text[:MAX_SHOWN].splitlines()[:LINES])
        shown.append(f"{heading}:\n{text.strip()}")
    return "\n\n".join(shown)


def openable(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the named text files of a conversation; of two with one name, the later one."""
    return {name: text for name, text in _text_files(messages) if name}


@contextmanager
def opened(messages: Sequence[BaseMessage]) -> Iterator[None]:
    """Let the programs that run inside the block open the text files of a conversation."""
    token = python_coder.files.set(openable(messages))
    try:
        yield
    finally:
        python_coder.files.reset(token)


def _text_files(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, str]]:
    for message in messages:
        content = message.content if isinstance(message, HumanMessage) else ""
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "text-plain":
                name = re.sub(r"[\x00-\x1f\x7f]", "", _given_name(block).rpartition("/")[2])[-60:]
                yield "" if name in (".", "..") else name, str(block.get("text", ""))


def with_attachments(
    conversation: list[BaseMessage], messages: Sequence[BaseMessage], after: int = 0
) -> list[BaseMessage]:
    """Return a module's conversation with the images and files of `messages` in its first message of a person.

    The first `after` messages of the conversation are not the run's own.
    """
    blocks = attached(messages)
    if not blocks:
        return conversation
    own = enumerate(conversation[after:], start=after)
    first = next(place for place, message in own if isinstance(message, HumanMessage))
    text = {"type": "text", "text": conversation[first].text}
    return [*conversation[:first], HumanMessage([text, *blocks]), *conversation[first + 1 :]]


async def check_attachments(messages: Sequence[BaseMessage], context: Context) -> None:
    """Raise ModelError if the model of a module that reads the question takes no such content."""
    for block in HumanMessage(attached(messages)).content_blocks:
        kind = str(block["type"])
        for module in READERS:
            if kind in INPUTS and not await _takes(kind, module, context):
                spec = one_line(context.model_name_of(module), 200)
                raise misconfigured(
                    "no_attachments",
                    f"{_name(block)} cannot be read: {spec}, the model of the {module}, takes no {kind}; name one "
                    "that does",
                )


async def _takes(kind: str, module: Module, context: Context) -> bool:
    if corpus_of(context.model_name_of(module).partition(":")[0]):
        return False  # such a model reads text alone
    model = await aload_model(context.model_of(module), context.sampling_of(module))
    return bool((model.profile or {}).get(INPUTS[kind], True))


def _name(block: Mapping[str, Any]) -> str:
    return one_line(_given_name(block) or f"the {block['type']}", 80)


def _given_name(block: Mapping[str, Any]) -> str:
    extras = block.get("extras") or {}
    known = {**block, **extras, **(extras.get("metadata") or {})}
    return str(known.get("filename") or known.get("name") or known.get("title") or "")
