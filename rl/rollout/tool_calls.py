"""Check of a model's chat template with tools: is a reply read as it is written, and each token trained on once?

The model is not asked. What it writes is taken from its own template, which renders a reply without calls, with one and
with two, with and without a thought before them.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentflow.graph.context import Sampling
from agentflow.rl.policy.chat import ChatError, ChatRequest, Conversations, as_chat_result
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.calls import Call
from agentflow.rl.rollout.packing import pack

_OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
_PROPERTIES = {"tags": {"type": "array", "items": {"type": "string"}}, "code": {"type": "string"}, "limit": _OPTIONAL}
FIND: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find entries.",
        "parameters": {"type": "object", "properties": _PROPERTIES, "required": ["tags", "code"]},
    },
}
CALLS: tuple[dict[str, Any], ...] = (
    {"tags": ["a", "b"], "code": "x = 1\nprint(x)", "limit": 3},
    {"tags": [], "code": "null", "limit": None},
)
"""Arguments that families are known to garble: lists, line breaks, and what may be null."""
SAID, THOUGHT = "Fine.", "hm"
KINDS = ("a reply", "a call", "two calls")
TURNS = 4
"""Two calls with results, an answer, and another after a nudge."""


@dataclass(frozen=True)
class ToolCertificate:
    """What a template does to replies, which all think or do not."""

    unread: Mapping[str, str]
    """Kinds of replies that are not read as they are written, and why, or what the template writes."""
    rows: int
    """Training rows of a conversation of TURNS replies; 0 if the template refuses it."""
    exact: bool
    """True if each sampled token is trained on once, with its log-probability."""

    @property
    def works(self) -> bool:
        """Whether replies and single calls are read, and trained on as they were sampled."""
        return not {*KINDS[:2]} & self.unread.keys() and self.rows > 0 and self.exact


def certify_calls(known: ChatFormat, thought: str = "", most: int = len(CALLS)) -> ToolCertificate:
    """Check a template whose replies begin with a thought, or do not, and have up to `most` calls."""
    unread = {}
    for number, kind in enumerate(KINDS[: most + 1]):
        try:
            text = written(known, number, thought)
            if not _is_read(known, text, number, thought):
                unread[kind] = repr(text)
        except ChatError as error:
            unread[kind] = str(error)
    try:
        calls = _conversation(known, [written(known, number, thought) for number in (min(most, 1), 0)])
    except ChatError:
        return ToolCertificate(unread, 0, exact=False)
    rows = pack(calls, limit=max(len(call.prompt_ids) + len(call.response_ids) for call in calls))
    sampled = [pair for call in calls for pair in zip(call.response_ids, call.logprobs, strict=True)]
    tokens = [zip(row.response_ids, row.logprobs, row.mask, strict=True) for row in rows]
    trained = [(index, logprob) for row in tokens for index, logprob, counts in row if counts]
    return ToolCertificate(unread, len(rows), exact=sorted(trained) == sorted(sampled))


def written(known: ChatFormat, calls: int, thought: str) -> str:
    """Return what the model writes for a reply, as far as its template shows it: without the end and an opened thought.

    Raises ChatError.
    """
    request = ChatRequest([{"role": "user", "content": "q"}], tools=[FIND])
    made = [
        {"type": "function", "id": f"c{n}", "function": {"name": "find", "arguments": CALLS[n]}} for n in range(calls)
    ]
    reply: dict[str, Any] = {"role": "assistant", "content": "" if calls else SAID}
    reply |= {"reasoning_content": thought, "thinking": thought} if thought else {}
    reply |= {"tool_calls": made} if made else {}
    prompt, whole = (
        known.render(request.messages, request),
        known.render([*request.messages, reply], request, prompt=False),
    )
    pairs = enumerate(zip(prompt, whole, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), len(prompt))
    return whole[same:].split(_end(known))[0]


def _is_read(known: ChatFormat, text: str, calls: int, thought: str) -> bool:
    request = ChatRequest([{"role": "user", "content": "q"}], tools=[FIND])
    ids = _encoded(known, text)
    found = known.reply(request, "x", [], ids, [0.0] * len(ids))
    expected = [*CALLS[:calls]], "" if calls else SAID, thought if thought in text else "", False
    read = [call["args"] for call in found.tool_calls], found.text.strip(), found.reasoning.strip(), found.unreadable
    return read == expected


def _conversation(known: ChatFormat, texts: Sequence[str]) -> list[Call]:
    """Return the calls of a conversation of TURNS replies, half of the first text, half of the second."""
    conversations, history, calls = Conversations(), list[BaseMessage]([HumanMessage("q")]), list[Call]()
    for turn in range(TURNS):
        request = conversations.request(history, Sampling(), {"tools": [FIND]})
        prompt, sampled = known.prompt_ids(request), _encoded(known, texts[2 * turn // TURNS])
        logprobs = [-0.5 - turn - place / 1000 for place in range(len(sampled))]
        reply = known.reply(request, f"call {turn}", prompt, sampled, logprobs)
        message: Any = as_chat_result(reply, "policy").generations[0].message
        conversations.remember(message, reply)
        calls.append(Call("r", "agent", turn, array("i", prompt), array("i", sampled), array("f", logprobs), "stop", 0))
        results: list[BaseMessage] = [ToolMessage("ok", tool_call_id=str(call["id"])) for call in message.tool_calls]
        history += [message, *(results or [HumanMessage("sure?")])]
    return calls


def _encoded(known: ChatFormat, text: str) -> list[int]:
    return list(known.tokenizer(text + _end(known), add_special_tokens=False)["input_ids"])


def _end(known: ChatFormat) -> str:
    return str(getattr(known.tokenizer, "eos_token", ""))
