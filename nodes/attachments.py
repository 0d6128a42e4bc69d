"""Images and files of a conversation: they go to the modules that read the question, if their models take them.

The executor and the tools get text alone, as always.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from agentflow.graph.context import Context, Module
from agentflow.graph.models.loading import aload_model
from agentflow.graph.models.providers import corpus_of
from agentflow.graph.models.spec import ModelError
from agentflow.tools.untrusted_text import one_line

READERS: tuple[Module, ...] = ("analyst", "planner", "verifier", "generator")

INPUTS = {"image": "image_inputs", "file": "pdf_inputs", "audio": "audio_inputs", "video": "video_inputs"}
"""The field of a model's profile that tells whether it takes a kind of content. LangChain knows many models' profiles;
a model without one is asked, and its server may refuse.
"""


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
    """Return the text of a message, and of the text files in it."""
    content = message.content if isinstance(message.content, list) else []
    files = [str(one.get("text", "")) for one in content if isinstance(one, dict) and one.get("type") == "text-plain"]
    return "\n\n".join(part for part in [message.text.strip(), *files] if part.strip())


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
                raise ModelError(
                    f"{_name(block)} cannot be read: {spec}, the model of the {module}, takes no {kind}; name one "
                    "that does",
                    configuration=True,
                    code="no_attachments",
                )


async def _takes(kind: str, module: Module, context: Context) -> bool:
    if corpus_of(context.model_name_of(module).partition(":")[0]):
        return False  # such a model reads text alone
    model = await aload_model(context.model_of(module), context.sampling_of(module))
    return bool((model.profile or {}).get(INPUTS[kind], True))


def _name(block: Mapping[str, Any]) -> str:
    extras = block.get("extras") or {}
    known = {**block, **extras, **(extras.get("metadata") or {})}
    return one_line(known.get("filename") or known.get("name") or f"the {block['type']}", 80)
