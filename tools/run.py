"""Execution of one tool call, with the outcome as data.

The output of any tool, built-in, from a LangChain integration or from an MCP server, becomes one `ToolResult`. No part
of its text can pass for a prompt (`untrusted_text`) or contain a known key, which memory would pass on (`redaction`).
Arguments are also checked here, before the tool does. This separates mistakes of the model (BAD_ARGUMENTS) from
failures of the tool (TOOL_ERROR), even if both are a pydantic ValidationError.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, Tool
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, ValidationError

from agentflow.tools.card import parameters
from agentflow.tools.redaction import MESSAGE, redacted, without_known
from agentflow.tools.result import PROVIDER, ErrorClass, ToolFailure, ToolResult
from agentflow.tools.sandbox.limits import SandboxError
from agentflow.tools.untrusted_text import bounded_line, mark_untrusted

MAX_MESSAGE = 500
"""Characters of an error message, which is repeated in every later prompt of the run."""

MAX_OUTPUT = 100_000
"""Approximate tokens of an output: more than any memory keeps, and few enough to scan."""

SHORT = 20_000
"""Characters of an output up to which it is scanned on the event loop, in a millisecond; longer ones use a thread."""

SANDBOX = "agentflow_sandbox"
"""Key in a tool's artifact for the sandbox's tier in which it ran code."""

Run = Callable[[], Awaitable[ToolResult]]
Interposed = Callable[[str, dict[str, Any], Run], Awaitable[ToolResult]]
"""Receives the tool's name, its arguments, and the function that makes the call."""

interposed: ContextVar[Interposed | None] = ContextVar("agentflow tool calls", default=None)
"""Intercepts the tool calls of a run. It may answer instead of the tool, as a recording does."""

_BASE64 = re.compile(r"[A-Za-z0-9+/=]{200}")

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


async def run_tool(
    tool: BaseTool,
    arguments: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - a timeout becomes a result, not an exception
) -> ToolResult:
    """Call `tool` with `arguments` within `timeout` seconds, and return the result.

    A failure is a result with its error class and one line of text. Three kinds of exceptions are raised: cancellation
    of the caller, LangGraph's control flow (a tool that asks a person by `interrupt`), and SandboxError, which is not a
    failure of the tool.
    """
    through = interposed.get()
    if through is None:
        return await _call(tool, arguments, timeout)
    return await through(tool.name, arguments, lambda: _call(tool, arguments, timeout))


async def _call(
    tool: BaseTool,
    arguments: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - as in `run_tool`
) -> ToolResult:
    start, limit = time.perf_counter(), asyncio.timeout(timeout)

    def failed(error: ErrorClass, message: str, sandbox: str = "") -> ToolResult:
        return ToolResult.failed(error, _line(message), time.perf_counter() - start, sandbox)

    try:
        if problem := argument_problem(tool, arguments):
            return failed(ErrorClass.BAD_ARGUMENTS, problem)
        async with limit:
            # The whole call instead of its arguments: otherwise LangChain does not report errors that a tool handled
            # itself, and could mistake arguments that include "type" for a call.
            call = {"type": "tool_call", "id": uuid4().hex, "name": tool.name, "args": dict(arguments)}
            reply = await tool.ainvoke(call)
    except (GraphBubbleUp, SandboxError):
        raise
    except ToolFailure as failure:
        return failed(failure.error, str(failure), failure.sandbox)
    except (Exception, SystemExit) as raised:  # of external code; exit() would end the process
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, TimeoutError):
            return failed(ErrorClass.TOOL_ERROR, f"{type(error).__name__}: {error}".rstrip(": "))
        late = f"{tool.name} did not finish in {timeout:g} seconds" if limit.expired() else str(error)
        return failed(ErrorClass.TIMEOUT, late or "TimeoutError")
    text = _text(reply)
    if isinstance(reply, ToolMessage) and reply.status == "error":
        return failed(ErrorClass.TOOL_ERROR, text)
    if text in ("", "null"):  # LangChain writes a returned None as JSON
        return failed(ErrorClass.EMPTY_RESULT, f"{tool.name} returned nothing")
    seconds = time.perf_counter() - start
    declared = {"sandbox": _declared(reply, SANDBOX), "provider": _declared(reply, PROVIDER)}
    result = ToolResult(status="ok", output=text, seconds=seconds, **declared)
    return _fit(result) if len(text) <= SHORT else await asyncio.to_thread(_fit, result)


def _line(message: str) -> str:
    """Return an error message for memory and prompts. Only the beginning of a long one is read, on the event loop."""
    short = message if len(message) <= MESSAGE else redacted(message, MESSAGE)
    return bounded_line(without_known(_valid(short)), MAX_MESSAGE)


def _fit(result: ToolResult) -> ToolResult:
    """Return the result for memory and prompts: without keys, at most MAX_OUTPUT, and no imitation of a prompt."""
    result = result.model_copy(update={"output": without_known(result.output)}).shortened(MAX_OUTPUT)
    return result.model_copy(update={"output": mark_untrusted(result.output)})


def argument_problem(tool: BaseTool, arguments: object) -> str | None:
    """Return the first violation of the tool's schema, with the field's name, or None."""
    if not isinstance(arguments, dict):
        return f"the arguments of {tool.name} must be an object, not {type(arguments).__name__}"
    schema = tool.tool_call_schema if tool.args_schema or not isinstance(tool, Tool) else None  # else, of Tool._run
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "arguments"
            return f"{field}: {first['msg']}"
        return None
    return _json_schema_problem(parameters(tool), arguments)


def _json_schema_problem(schema: Mapping[str, Any], arguments: dict[str, Any]) -> str | None:
    """Check required fields and top-level types of a plain JSON schema, as MCP tools have it. The server checks the
    rest.
    """
    for name in schema["required"]:
        if name not in arguments:
            return f"{name}: Field required"
    for name, value in arguments.items():
        expected = schema["properties"].get(name, {}).get("type")
        types = _JSON_TYPES.get(expected) if isinstance(expected, str) else None
        is_bool_as_number = isinstance(value, bool) and expected in ("integer", "number")
        if types and (not isinstance(value, types) or is_bool_as_number):
            return f"{name}: Input should be of type {expected}"
    return None


def _text(reply: object) -> str:
    """Return a tool's output as text. Content blocks are joined; those with base64 are named."""
    content = reply.content if isinstance(reply, ToolMessage) else reply
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        content = "\n".join(_block_text(block) for block in content)
    return _valid(str(content)).strip()


def _valid(text: str) -> str:
    """Return `text` without lone surrogates, which cannot be written to a file or sent to a model."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _declared(reply: object, key: str) -> str:
    """Return a value that a built-in tool declares in its artifact: the sandbox's tier, the search engine."""
    artifact = reply.artifact if isinstance(reply, ToolMessage) else None
    return str(artifact.get(key, "")) if isinstance(artifact, Mapping) else ""


def _block_text(block: object) -> str:
    if not isinstance(block, Mapping):
        return str(block)
    if block.get("type") == "text":
        return str(block.get("text") or "")
    written = json.dumps(block, ensure_ascii=False, default=str)
    return f"[{block.get('type', 'content')}]" if _BASE64.search(written) else written
