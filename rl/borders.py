"""Sanitisation of conversations for chat templates: message contents cannot contain the template's control tokens.

`apply_chat_template` renders text, and the tokenizer then parses every special token in that text, whatever its origin:
a page that contains `<|im_end|>` would end the message that quotes it. Assistant messages stay as they were sampled.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from agentflow.rl.chat import TemplateMessage
from agentflow.tools.borders import unbordered


class Tokenizer(Hashable, Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    added_tokens_decoder: dict[int, Any]
    chat_template: Any


def sanitized(messages: Sequence[TemplateMessage], own: frozenset[str]) -> list[TemplateMessage]:
    """Return messages for `apply_chat_template` whose contents hold none of the tokenizer's `own` control tokens."""
    return [
        message if message["role"] == "assistant" else {**message, "content": unbordered(message["content"], own)}
        for message in messages
    ]


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
