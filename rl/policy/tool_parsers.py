"""Tool parsers: the calls in a model's reply, by the format of its family.

A parser is chosen by name, or by what the chat template writes. Our own (`agentflow.rl.policy.reply_formats`) come
first, then vLLM's where it is installed (`mistral`, `kimi_k2`, ...).
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from agentflow.rl.policy.chat import ChatError, FoundCall
from agentflow.rl.policy.reply_formats import READERS, Read, Reader

MARKS = (
    ("<|channel|>", "gpt-oss"),
    ("<|tool_call>", "gemma4"),
    ("<arg_key>", "glm"),
    ("<|tool_call_start|>", "lfm2"),
    ("List of tools: ", "lfm2"),
    ("<atem:invoke", "invoke"),
    ("<minimax:tool_call>", "invoke"),
    ("<function=", "qwen3_coder"),
    ("<tool_call>", "hermes"),
    ("[TOOL_CALLS]", "mistral"),
    ('"parameters": ', "llama3_json"),
)
"""Texts of chat templates, and the parsers of the models that have them; the first that occurs decides."""


def tool_parser(name: str, tokenizer: Any) -> Reader:
    """Return the parser `name`; for "auto", that of the tokenizer's chat template. Raises ChatError."""
    template = str(tokenizer.chat_template or "")
    if name == "auto":
        if "tools" not in template:
            raise ChatError(
                "the model's chat template has no place for tools; choose a model that calls tools, or give a template "
                "that has (actor_rollout_ref.model.custom_chat_template)",
                code="no_tools",
            )
        name = next((parser for mark, parser in MARKS if mark in template), "")
        if not name:
            raise ChatError("the format of the model's tool calls is not known; name its parser with tool_parser=")
    if name in READERS:
        return READERS[name]
    return _reader(_vllm_parser(name)(tokenizer))


def _reader(parser: Any) -> Reader:
    """Return a parser of vLLM as a reader."""
    begin = [str(mark) for name in ("tool_call_start_token", "bot_token") if (mark := getattr(parser, name, ""))]

    def read(text: str, tools: Sequence[Mapping[str, Any]]) -> Read:
        found = parser.extract_tool_calls(text, request=SimpleNamespace(tools=list(tools), tool_choice="auto"))
        if not found.tools_called:
            return None if any(mark in text for mark in begin) else (text, [])
        calls = [FoundCall(call.function.name, call.function.arguments) for call in found.tool_calls]
        return found.content or "", calls

    return read


def _vllm_parser(name: str) -> Any:
    try:
        return import_module("vllm.tool_parsers").ToolParserManager.get_tool_parser(name)
    except ModuleNotFoundError as error:
        raise ChatError(
            f"tool_parser={name} is none of {', '.join(READERS)}, and vLLM, which may have it, is not installed"
        ) from error
    except KeyError as error:
        raise ChatError(f"neither {', '.join(READERS)} nor vLLM has a tool parser '{name}'") from error
