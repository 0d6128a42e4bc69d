"""Tokenizers with the chat templates of families of models, and a policy that samples a script with them."""

import asyncio
import json
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from agentflow.graph.context import Sampling
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.policy.chat import ChatRequest, Conversations, TokenReply, as_chat_result
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.calls import Call
from agentflow.rl.rollout.packing import pack
from tests.pages import ROOT

TEMPLATES = ROOT / ".venvs" / "templates" / "trl" / "chat_templates"
"""Files of a package that `make test` installs there; verl would import it, were it among its own."""

needs_templates = pytest.mark.skipif(
    not TEMPLATES.exists(), reason=f"there are no chat templates in {TEMPLATES}; make test installs them"
)

ENDS = {"qwen2_5": "<|im_end|>", "qwen3": "<|im_end|>", "llama3_1": "<|eot_id|>", "smollm2": "<|im_end|>"}
"""Families, and the tokens that end a message."""

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML with a system message of its own, and without tools, as small models have it."""


ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}
"""A tool in OpenAI's format."""


def tokenizer(family: str) -> Any:
    """The embedded model's tokenizer with the control tokens and the template of a family."""
    from transformers import AutoTokenizer

    found: Any = AutoTokenizer.from_pretrained(SEED)
    llama = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"]
    found.add_special_tokens({"additional_special_tokens": llama})
    found.add_tokens(["<tool_call>", "</tool_call>", "<think>", "</think>"])
    found.chat_template = SMOLLM2 if family == "smollm2" else (TEMPLATES / f"{family}.jinja").read_text()
    found.eos_token = ENDS[family]
    return found


def chat_format(family: str) -> ChatFormat:
    """The format of a family."""
    return ChatFormat(tokenizer(family))


def called(family: str, name: str, arguments: dict[str, Any], *, tight: bool = False) -> str:
    """A tool call as a model of that family may write it; `tight`: with other blanks than its template."""
    separators = (",", ":") if tight else (", ", ": ")
    key = "parameters" if family == "llama3_1" else "arguments"
    text = json.dumps({"name": name, key: arguments}, separators=separators)
    return text if family == "llama3_1" else f"<tool_call>\n{text}\n</tool_call>"


class ScriptedPolicy:
    """Policy that samples what `script` returns for a request; an `agentflow.rl.policy.chat.Generate`."""

    def __init__(self, family: str, script: Callable[[ChatRequest], str], known: ChatFormat | None = None) -> None:
        self.format, self.script = known or chat_format(family), script
        self.sampled: list[TokenReply] = []
        self.requests: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> TokenReply:
        self.requests.append(request)
        prompt_ids = self.format.prompt_ids(request)
        tokenizer: Any = self.format.tokenizer
        ids = [*tokenizer(self.script(request), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        logprobs = [-0.5 - len(self.sampled) - place / 1000 for place in range(len(ids))]
        reply = self.format.reply(request, f"call {len(self.sampled)}", prompt_ids, ids, logprobs)
        self.sampled.append(reply)
        return reply


class Talk:
    """A conversation with a policy, whose turns are calls of one trajectory."""

    def __init__(self, policy: ScriptedPolicy, tools: bool = True) -> None:
        self.policy, self.options = policy, {"tools": [ADD]} if tools else {}
        self.conversations = Conversations()
        self.calls: list[Call] = []

    def turn(self, messages: list[BaseMessage]) -> AIMessage:
        request = self.conversations.request(messages, Sampling(), self.options)
        reply: TokenReply = asyncio.run(self.policy(request))
        message: Any = as_chat_result(reply, "policy").generations[0].message
        self.conversations.remember(message, reply)
        tokens = array("i", reply.prompt_ids), array("i", reply.token_ids), array("f", reply.logprobs)
        self.calls.append(Call("r", "agent", len(self.calls), *tokens, "stop", 0))
        return message

    def rows(self) -> int:
        return len(pack(self.calls, limit=100_000))

    def sampled(self) -> list[tuple[int, float]]:
        """Every sampled token with its log-probability, in order."""
        return [pair for call in self.calls for pair in zip(call.response_ids, call.logprobs, strict=True)]

    def trained(self) -> list[tuple[int, float]]:
        """Every token that the packed rows train on, with its log-probability."""
        return [
            (index, logprob)
            for row in pack(self.calls, limit=100_000)
            for index, logprob, counts in zip(row.response_ids, row.logprobs, row.mask, strict=True)
            if counts
        ]
