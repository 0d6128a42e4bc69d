"""Sanitisation of conversations for chat templates: their texts cannot contain the template's control tokens.

`apply_chat_template` renders text, and the tokenizer then parses every special token in that text, whatever its origin:
a page that contains `<|im_end|>` would end the message that quotes it.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

from agentflow.rl.policy.chat import TemplateMessage
from agentflow.tools.borders import unbordered
from agentflow.tools.json_codec import with_texts


class Tokenizer(Hashable, Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    chat_template: Any
    eos_token_id: int | None
    all_special_ids: list[int]
    all_special_tokens: list[str]
    added_tokens_decoder: dict[int, Any]

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, Any]:
        """Return the ids of a text, as `input_ids`."""

    def apply_chat_template(self, conversation: list[TemplateMessage], **options: Any) -> Any:
        """Return the text of a conversation."""

    def encode(self, text: str, **options: Any) -> list[int]:
        """Return the ids of a text."""

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        """Return the text of ids."""


def sanitized(
    messages: Sequence[TemplateMessage], tokenizer: Tokenizer, kept: Collection[int] = ()
) -> list[TemplateMessage]:
    """Return messages for `apply_chat_template` whose texts hold no control tokens.

    The replies at the positions `kept` stay as they are: their sampled ids are used. Other assistant messages, such as
    those of another model, keep the markup of thoughts and tool calls, and lose special tokens.
    """
    own, special = borders_of(tokenizer), tuple(str(token) for token in tokenizer.all_special_tokens)
    found = []
    for position, message in enumerate(messages):
        if message["role"] != "assistant":
            message = with_texts(message, partial(unbordered, tokens=own))
        elif position not in kept:
            message = with_texts(message, partial(_without, tokens=special))
        found.append(message)
    return found


def sanitized_tools(tools: Sequence[Any], tokenizer: Tokenizer) -> list[Any]:
    """Return the descriptions of tools, which may come from a server, without control tokens."""
    found: list[Any] = with_texts(list(tools), partial(unbordered, tokens=borders_of(tokenizer)))
    return found


def _without(text: str, tokens: Sequence[str]) -> str:
    """Return `text` with a blank after the first character of each of `tokens`."""
    for token in tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


@lru_cache(maxsize=4)
def borders_of(tokenizer: Tokenizer) -> frozenset[str]:
    """Return the control tokens: special tokens, and other added tokens that occur in the chat template.

    Other added tokens are ordinary text: some tokenizers add runs of blanks and HTML tags.
    """
    template = str(tokenizer.chat_template or "")
    added = ((str(token.content), bool(token.special)) for token in tokenizer.added_tokens_decoder.values())
    return frozenset(
        content
        for content, special in added
        if (special or content in template) and content.strip() and not content.isalnum()
    )
