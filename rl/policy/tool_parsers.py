"""Tool parsers: the calls in a model's reply, by the format of its family.

A parser is chosen by name, or by what the chat template writes. Our own (`agentflow.rl.policy.reply_formats`) come
first, then verl's, then vLLM's where it is installed (`pythonic`, `mistral`, ...).
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from agentflow.rl.policy.chat import ChatError, FoundCall, ToolParser
from agentflow.rl.policy.reply_formats import READERS, Read, Reader

MARKS = (
    ("<|channel|>", "gpt-oss"),
    ("<|tool_call>", "gemma4"),
    ("<arg_key>", "glm"),
    ("<|tool_call_start|>", "lfm2"),
    ("List of tools: ", "lfm2"),
    ("<atem:invoke", "atem"),
    ("<function=", "qwen3_coder"),
    ("<tool_call>", "hermes"),
    ("[TOOL_CALLS]", "mistral"),
    ('"parameters": ', "llama3_json"),
)
"""Texts of chat templates, and the parsers of the models that have them; the first that occurs decides."""

VLLM_PARSERS = ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers")
"""Modules with vLLM's parsers, by its version."""


def tool_parser(name: str, tokenizer: Any) -> ToolParser:
    """Return the parser `name`; for "auto", that of the tokenizer's chat template. Raises ChatError."""
    template = str(tokenizer.chat_template or "")
    if name == "auto":
        if "tools" not in template:
            raise ChatError(
                "the model's chat template has no place for tools; choose a model that calls tools, or give a template "
                "that has (actor_rollout_ref.model.custom_chat_template)"
            )
        name = next((parser for mark, parser in MARKS if mark in template), "")
        if not name:
            raise ChatError("the format of the model's tool calls is not known; name its parser with tool_parser=")
    if name in READERS:
        return _Own(READERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines that are neither installed nor used
        from verl.experimental.agent_loop import tool_parser as parsers
    # A call that cannot be read is a fault of its rollout, which is counted and shown.
    parsers.logger.setLevel(logging.CRITICAL)
    parsers.get_event_loop = _Inline
    try:
        return _Verl(parsers.ToolParser.get_tool_parser(name, _Decoded(tokenizer)))
    except ValueError:
        return _Vllm(_vllm_parser(name)(tokenizer))


class _Decoded:
    """A tokenizer for parsers that decode a reply, for a reply that is decoded."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, text: str, **options: Any) -> str:
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class _Own:
    def __init__(self, read: Reader) -> None:
        self._read = read

    async def parse(self, text: str, tools: Sequence[dict[str, Any]]) -> Read:
        found = self._read(text, tools)
        return (found[0].strip(), found[1]) if found and found[1] else found


class _Inline:
    """An event loop for verl's parsers, which "decode" in a thread, though all threads may wait for their answers."""

    async def run_in_executor(self, executor: None, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class _Verl:
    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._begin = str(getattr(parser, "tool_call_start_token", ""))

    async def parse(self, text: str, tools: Sequence[dict[str, Any]]) -> tuple[str, list[FoundCall]] | None:
        content, found = await self._parser.extract_tool_calls(text, _as_verl_reads(tools))
        calls = [FoundCall(call.name, call.arguments) for call in found]
        # verl leaves out a call that is no JSON.
        unread = text.count(self._begin) > len(calls) if self._begin else content != text and not calls
        return None if unread else (str(content).strip() if calls else text, calls)


class _Vllm:
    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._begin = [
            str(mark) for name in ("tool_call_start_token", "bot_token") if (mark := getattr(parser, name, ""))
        ]

    async def parse(self, text: str, tools: Sequence[dict[str, Any]]) -> tuple[str, list[FoundCall]] | None:
        request = SimpleNamespace(tools=list(tools), tool_choice="auto")
        found = self._parser.extract_tool_calls(text, request=request)
        if not found.tools_called:
            return None if any(mark in text for mark in self._begin) else (text, [])
        calls = [FoundCall(call.function.name, call.function.arguments) for call in found.tool_calls]
        return found.content or "", calls


def _vllm_parser(name: str) -> Any:
    for module in VLLM_PARSERS:
        try:
            return import_module(module).ToolParserManager.get_tool_parser(name)
        except ModuleNotFoundError:
            continue
        except KeyError as error:
            raise ChatError(f"neither verl nor vLLM has a tool parser '{name}'") from error
    raise ChatError(f"verl has no tool parser '{name}', and vLLM, which may, is not installed")


def _as_verl_reads(tools: Sequence[dict[str, Any]]) -> list[Any]:
    """Return tools for those of verl's parsers that look up names and required arguments, whatever their schemas."""
    found = []
    for tool in tools:
        parameters = tool["function"].get("parameters") or {}
        named = SimpleNamespace(required=list(parameters.get("required") or ()), properties={})
        function = SimpleNamespace(name=tool["function"]["name"], parameters=named)
        found.append(SimpleNamespace(type="function", function=function))
    return found
