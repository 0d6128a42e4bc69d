import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

pytest.importorskip("starlette", reason="the extra serve is not installed")

from agentflow.rl.micro.protocol import ChatCompletionRequest
from agentflow.rl.micro.server import settled

HELLO = [{"role": "user", "content": "Hello"}]


def request(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest.model_validate_json(json.dumps({"model": "m", "messages": HELLO, **fields}))


def test_what_a_client_sends_by_habit_is_accepted() -> None:
    asked = request(
        user="me", tools=[], top_logprobs=0, presence_penalty=0.0, response_format={"type": "text"}, temperature=None
    )
    assert asked.temperature == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function"}]},
        {"response_format": {"type": "json_object"}},
        {"top_logprobs": 5},
        {"logit_bias": {"5": 100}},
        {"frequency_penalty": 0.5},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"n": 0},
        {"n": 65},
        {"stop": "x" * 257},
        {"max_tokens": 0},
        {"seed": -1},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(**fields)


def test_content_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "He"}, {"type": "text", "text": "llo"}]
    (message,) = request(messages=[{"role": "developer", "content": parts}]).messages
    assert message.as_pair() == ("system", "Hello")


@given(text=st.text("ab\ufffd.", max_size=12), stops=st.lists(st.text("ab.", min_size=1, max_size=3), max_size=3))
def test_what_was_sent_stays_as_the_text_grows(text: str, stops: list[str]) -> None:
    """Whatever comes later, up to the stop string that ends it, what is settled is the beginning of the reply."""
    whole = text[: min((cut for cut in map(text.find, stops) if cut >= 0), default=len(text))]
    for length in range(len(text) + 1):
        seen = text[:length]
        assert whole.startswith(settled(seen, stops))
        if any(stop in seen for stop in stops):
            break
