"""Every chat template that TRL ships: what its model writes is read as it was meant, and trained on once."""

import re
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

pytest.importorskip("transformers")

from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.policy.chat import ChatRequest
from agentflow.rl.policy.chat_format import ChatFormat
from tests.cases import table
from tests.chat_templates import TEMPLATES, ScriptedPolicy, Talk, needs_templates

pytestmark = needs_templates

CONTROL = re.compile(r'<\|"\|>|<\|[^<>|\s\']+\|>|<\|\w+>|<\w+\|>')


@tool
def find(tags: list[str], code: str, limit: int | None = None) -> str:
    """Find entries."""
    return "ok"


FAMILIES = table(__file__, "families.txt")
"""Templates: the token that ends a message, the calls that a message may have, rows without and with thoughts."""

FIND = convert_to_openai_tool(find)
CALLS: list[dict[str, Any]] = [
    {"tags": ["a", "b"], "code": "x = 1\nprint(x)", "limit": 3},
    {"tags": [], "code": "null", "limit": None},
]


def family(template: str, end: str) -> ChatFormat:
    from transformers import AutoTokenizer

    known: Any = AutoTokenizer.from_pretrained(SEED)
    text = (TEMPLATES / f"{template}.jinja").read_text()
    known.add_special_tokens({"additional_special_tokens": sorted({*CONTROL.findall(text), end})})
    known.add_tokens(["<tool_call>", "</tool_call>", "<think>", "</think>"])
    known.chat_template, known.eos_token = text, end
    return ChatFormat(known)


def written(known: ChatFormat, reply: dict[str, Any], end: str) -> str:
    """What the model writes for a reply, as far as its template shows it: without the end, and the opened thought."""
    question = [{"role": "user", "content": "q"}]
    tokenizer: Any = known.tokenizer
    options = {"tools": [FIND], "tokenize": False}
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, **options)
    whole = tokenizer.apply_chat_template([*question, reply], **options)
    same = next(
        (place for place, (one, other) in enumerate(zip(prompt, whole, strict=False)) if one != other), len(prompt)
    )
    return str(whole[same:].split(end)[0])


def reply_of(calls: list[dict[str, Any]], thought: str) -> dict[str, Any]:
    made = [
        {"type": "function", "id": f"c{n}", "function": {"name": "find", "arguments": one}}
        for n, one in enumerate(calls)
    ]
    thinks = {"reasoning_content": thought, "thinking": thought} if thought else {}
    return {
        "role": "assistant",
        "content": "" if calls else "Fine.",
        **thinks,
        **({"tool_calls": made} if made else {}),
    }


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case["template"])
async def test_what_a_family_writes_is_read(case: dict[str, Any]) -> None:
    known = family(case["template"], case["end"])
    request = ChatRequest([{"role": "user", "content": "q"}], tools=[FIND])
    for number in range(case["calls"] + 1):
        for thought in ("", "hm"):
            text = written(known, reply_of(CALLS[:number], thought), case["end"])
            tokenizer: Any = known.tokenizer
            ids = tokenizer(text + case["end"], add_special_tokens=False)["input_ids"]
            found = await known.reply(request, "x", [], ids, [0.0] * len(ids))
            assert [call["args"] for call in found.tool_calls] == CALLS[:number], text
            assert (found.text.strip(), found.unreadable) == ("" if number else "Fine.", False)
            assert found.reasoning.strip() == (thought if thought in text else "")


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case["template"])
def test_what_a_family_writes_is_trained_on_once(case: dict[str, Any]) -> None:
    """Two calls with results, an answer, and a nudge; with a thought each where the template writes thoughts."""
    known, rows = family(case["template"], case["end"]), []
    for thought in ("", "hm"):
        call, answer = (
            written(known, reply_of(calls, thought), case["end"]) for calls in (CALLS[: case["calls"]][:1], [])
        )
        replies = iter([call, call, answer, answer])
        talk = Talk(ScriptedPolicy("", lambda request, replies=replies: next(replies), known))
        talk.options = {"tools": [FIND]}
        history: list[BaseMessage] = [HumanMessage("q")]
        for _ in range(4):
            message = talk.turn(history)
            results = [ToolMessage("ok", tool_call_id=str(one["id"])) for one in message.tool_calls]
            history += [message, *(results or [HumanMessage("sure?")])]
        assert sorted(talk.trained()) == sorted(talk.sampled())
        rows.append(talk.rows())
    assert rows == case["rows"]
