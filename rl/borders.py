"""A conversation as a chat template gets it: no text in it holds a token that the template itself writes.

`apply_chat_template` writes text, and the tokenizer then reads every special token in that text, whoever wrote it: a
page that says `<|im_end|>` would end the message that quotes it. What the model itself said stays as it was sampled.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from agentflow.tools.borders import unbordered


class Tokenizer(Hashable, Protocol):
    """What is used of a Hugging Face tokenizer."""

    added_tokens_decoder: dict[int, Any]
    chat_template: Any


def chat(tokenizer: Tokenizer, messages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """(role, content) messages as `apply_chat_template` takes them."""
    own = borders_of(tokenizer)
    return [
        {"role": role, "content": content if role == "assistant" else unbordered(content, own)}
        for role, content in messages
    ]


@lru_cache(maxsize=4)
def borders_of(tokenizer: Tokenizer) -> frozenset[str]:
    """The tokenizer's special tokens, and those of its other added tokens that its template writes.

    Not every added token is one: some tokenizers hold runs of blanks and HTML tags as tokens.
    """
    template = str(tokenizer.chat_template or "")
    added = ((str(token.content), bool(token.special)) for token in tokenizer.added_tokens_decoder.values())
    return frozenset(
        content
        for content, special in added
        if (special or content in template) and content.strip() and not content.isalnum()
    )
