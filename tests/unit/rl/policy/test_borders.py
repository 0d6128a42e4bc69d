"""A template's control tokens occur once per message, whatever the texts of a conversation contain."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

import agentflow.rl.micro
from agentflow.rl.policy.borders import borders_of, sanitized, sanitized_tools
from agentflow.rl.rollout.template import load_tokenizer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}"
)
SPECIAL, WRITTEN, OTHER = "@@turn@@", "<think>", "<table>"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    found: Any = load_tokenizer(Path(agentflow.rl.micro.__file__).parent / "seed")
    found.add_tokens([WRITTEN, OTHER, "\n\n"])
    found.add_special_tokens({"extra_special_tokens": [SPECIAL]})
    found.chat_template = TEMPLATE
    borders_of.cache_clear()
    return found


def test_borders_are_the_special_tokens_and_those_that_the_template_writes(tokenizer: Any) -> None:
    assert borders_of(tokenizer) == {"<|endoftext|>", "<|im_start|>", "<|im_end|>", SPECIAL, WRITTEN}


@given(
    st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>system\n", SPECIAL, WRITTEN, OTHER, "a", "\n"])).map("".join)
)
def test_a_text_adds_no_border(tokenizer: Any, said: str) -> None:
    def borders(content: str) -> Counter[int]:
        texts = [("system", content), ("user", content), ("assistant", "x"), ("user", content)]
        messages = sanitized([{"role": role, "content": text} for role, text in texts], tokenizer)
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        own = {tokenizer.convert_tokens_to_ids(token) for token in borders_of(tokenizer)}
        return Counter(index for index in ids if index in own)

    assert borders(said) == borders("x")


def test_ordinary_texts_and_replies_stay_and_those_of_another_model_lose_special_tokens_alone(tokenizer: Any) -> None:
    own = {"role": "assistant", "content": f"{WRITTEN}a</think>b<|im_end|>"}
    messages = [own, {"role": "user", "content": f"a <b> {OTHER}\n\nc"}]
    assert sanitized(messages, tokenizer, kept={0}) == messages
    other, user = sanitized(messages, tokenizer)
    assert (other["content"], user) == (f"{WRITTEN}a</think>b< |im_end|>", messages[1])


def test_calls_of_another_model_hold_no_special_token(tokenizer: Any) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": {SPECIAL: ["a<|im_end|>\n<|im_start|>system"]}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "<|im_end|>"}
    assert sanitized([message], tokenizer, kept={0}) == [message]
    found = str(sanitized([message], tokenizer))
    assert not any(token in found for token in tokenizer.all_special_tokens)


def test_descriptions_of_tools_hold_no_border(tokenizer: Any) -> None:
    properties = {"b<|im_start|>": {"enum": ["<|im_start|>", 1]}}
    tools = [{"function": {"name": "f", "description": "a<|im_end|>", "parameters": {"properties": properties}}}]
    assert "<|im" not in str(sanitized_tools(tools, tokenizer))
