"""Classification of a model's reply (spoken, refused, cut off ...), made once, before any node reads it.

Models and servers differ in what they send beside what is said: thoughts, in a field or between the marks of the
model's family; the mark that ends a message; a refusal; a filter's reason. The tables here know them for all readers.
"""

import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from agentflow.tools.json_codec import from_json

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

REMEDIES = {
    "thought": "it wrote a thought and nothing else; serve it with the reasoning parser of its family and with "
    "thinking on, or with neither",
    "cut_off": "it reached the longest length before it said anything; raise max_tokens, or turn thinking off",
    "refused": "it refused to reply{why}; ask otherwise, or choose another model",
    "filtered": "the provider's content filter held its reply back; ask otherwise, or choose another model",
    "server_error": "the server failed while replying; try again, or look at the server's log",
}
"""The sentence about each reply that cannot be read."""

UNREADABLE = "unreadable"
"""Key of a reply's metadata that is set where a tool call of the policy could not be parsed, names no tool that was
offered, or is missing."""

MUTE = ("thought", "cut_off")
"""Replies in place of which an enforced form may be had."""

_REASONS = {"length": "cut_off", "max_tokens": "cut_off", "refusal": "refused"} | dict.fromkeys(
    ("content_filter", "content_filtered", "safety", "blocklist", "prohibited_content"), "filtered"
)
"""Kind of a reply without text, by its finish reason."""

THOUGHTS = (
    (r"<(?:think(?:ing)?|thought|seed:think)>", r"</(?:think(?:ing)?|thought|seed:think)>"),  # Qwen, DeepSeek, GLM ...
    (r"\[THINK\]", r"\[/THINK\]"),  # Mistral
    (r"(?:<\|start\|>assistant)?<\|channel\|>analysis", r"<\|channel\|>(?:final|commentary)[^\n]{0,80}?<\|message\|>"),
    (r"(?!)", r"assistantfinal"),  # gpt-oss too, without its special tokens
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"◁think▷", r"◁/think▷"),  # Kimi
)
"""Patterns of the marks before and after a thought, by family. A chat template may write the first in the prompt."""

OPENING = re.compile(rf"\s*(?:{'|'.join(opens for opens, _ in THOUGHTS)})", re.IGNORECASE)
CLOSING = re.compile("|".join(closes for _, closes in THOUGHTS), re.IGNORECASE)

_END = (
    r"(?:<[|｜](?:im_end|end(?:[_▁]?of[_▁]?\w{1,16}|_response)?|eo[mts](?:_id)?|return|call|user|observation)[|｜]>"
    r"|</s>|<eos>|<end_of_turn>|<turn\|>|\[\|endofturn\|\])"
)
# A mark after a colon is what was asked for. After its own, a model that nobody stops speaks for the others.
_ENDED = re.compile(
    rf"(?<=[^\s:])\s*{_END}\s*(?:\Z|(?:<[|｜]\w|<start_of_turn>|<\|turn>|<s>|\[INST\]).*)", re.DOTALL | re.IGNORECASE
)


@lru_cache(maxsize=16)  # several readers ask for the same reply
def without_marks(text: str) -> str:
    """Return a reply without its thoughts and end marks. One without any, or that is a JSON object, stays as it is."""
    start = max((match.end() for match in CLOSING.finditer(text)), default=0)
    said = "" if OPENING.match(text, start) else _ENDED.sub("", text[start:])
    with suppress(ValueError):
        return text if said != text and isinstance(from_json(text, strict=False), dict) else said
    return said


def written(reply: "AIMessage") -> str:
    """Return the text of a reply for the node that asked: what it says, or the calls that the server has read in it.

    A reply with token ids stays as it is, since a policy's plans stand in its later prompts to the letter.
    """
    text = str(reply.text)
    if reply.tool_calls and not text.strip():
        calls = ({"name": call["name"], "arguments": call["args"]} for call in reply.tool_calls)
        return "\n".join(json.dumps(call, ensure_ascii=False, default=str) for call in calls)
    return text if "token_ids" in reply.response_metadata else without_marks(text)


def thoughts(reply: "AIMessage") -> str:
    """Return the thoughts of a reply, where they are told apart from its text."""
    return str(reply.additional_kwargs.get("reasoning_content") or "")


def judged(reply: "AIMessage") -> str:
    """Return "spoken", "empty", which is the model's fault and for the node to answer, or a key of `REMEDIES`."""
    found, extra = reply.response_metadata, reply.additional_kwargs
    reason = str(found.get("finish_reason") or found.get("stop_reason") or found.get("stopReason")).lower()
    if reason == "error":
        return "server_error"
    if written(reply).strip():
        return "spoken"
    if "token_ids" in found:
        return "empty"  # a policy learns from it, whatever the reason
    thinks = extra.get("reasoning_content") or reply.text.strip()
    return "refused" if extra.get("refusal") else _REASONS.get(reason, "thought" if thinks else "empty")
