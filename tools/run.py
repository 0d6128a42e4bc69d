"""Runs one tool call and says how it went, as data.

Whatever a tool does - ours, a LangChain integration's, an MCP server's - comes back as one `ToolResult`. No part of its
text passes for a prompt (`untrusted_text`), nor shows a key of ours, which memory would hand on (`redaction`).
Arguments are checked here and not only inside the tool, so that what the model got wrong (BAD_ARGUMENTS) is told apart
from a tool that broke (TOOL_ERROR), even where both are a pydantic ValidationError.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, ValidationError

from agentflow.tools.redaction import without_known
from agentflow.tools.result import PROVIDER, ErrorClass, ToolFailure, ToolResult
from agentflow.tools.sandbox.limits import SandboxError
from agentflow.tools.untrusted_text import bounded_line, contained

MAX_MESSAGE = 500
"""Characters of an error message: it goes into every later prompt of the run."""

MAX_OUTPUT = 100_000
"""Tokens of an output, about: more than any memory keeps, little enough to be looked through."""

SHORT = 20_000
"""Characters of an output that are looked through at once, in a millisecond; a thread is for more."""

SANDBOX = "agentflow_sandbox"
"""Key of a tool's artifact under which it says in what tier of the sandbox it ran code."""

Run = Callable[[], Awaitable[ToolResult]]
Interposed = Callable[[str, dict[str, Any], Run], Awaitable[ToolResult]]
"""Gets the tool's name, its arguments, and what makes the call."""

interposed: ContextVar[Interposed | None] = ContextVar("agentflow tool calls", default=None)
"""What the calls of a run go through: it may answer in a tool's place, as a recording does."""

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
    timeout: float,  # noqa: ASYNC109 - the caller's budget becomes a result here, not an exception
    config: RunnableConfig | None = None,
) -> ToolResult:
    """The result of calling `tool` with `arguments`, within `timeout` seconds.

    A failure is a result with its error class and one line of text. What is raised: cancellation of the caller,
    LangGraph's own control flow (a tool that asks a person by `interrupt`), and SandboxError, as it is not the tool
    that failed.
    """
    through = interposed.get()
    if through is None:
        return await _call(tool, arguments, timeout, config)
    return await through(tool.name, arguments, lambda: _call(tool, arguments, timeout, config))


async def _call(
    tool: BaseTool,
    arguments: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - as in `run_tool`
    config: RunnableConfig | None,
) -> ToolResult:
    start = time.perf_counter()

    def failed(error: ErrorClass, message: str, sandbox: str = "") -> ToolResult:
        return ToolResult.failed(
            error, bounded_line(without_known(_valid(message)), MAX_MESSAGE), time.perf_counter() - start, sandbox
        )

    try:
        if problem := argument_problem(tool, arguments):
            return failed(ErrorClass.BAD_ARGUMENTS, problem)
        async with asyncio.timeout(timeout):
            # The whole call, not only its arguments: only then does LangChain report errors that a tool handled itself,
            # and an argument that is called "type" cannot pass for a call.
            call = {"type": "tool_call", "id": uuid4().hex, "name": tool.name, "args": dict(arguments)}
            reply = await tool.ainvoke(call, config)
    except (GraphBubbleUp, SandboxError):
        raise
    except ToolFailure as failure:
        return failed(failure.error, str(failure), failure.sandbox)
    except TimeoutError:
        return failed(ErrorClass.TIMEOUT, f"{tool.name} did not finish in {timeout:g} seconds")
    except Exception as error:  # the boundary to foreign code, which may raise anything
        return failed(ErrorClass.TOOL_ERROR, f"{type(error).__name__}: {error}")
    text = _text(reply)
    if isinstance(reply, ToolMessage) and reply.status == "error":
        return failed(ErrorClass.TOOL_ERROR, text)
    if text in ("", "null"):  # LangChain writes a returned None as JSON
        return failed(ErrorClass.EMPTY_RESULT, f"{tool.name} returned nothing")
    seconds = time.perf_counter() - start
    declared = {"sandbox": _declared(reply, SANDBOX), "provider": _declared(reply, PROVIDER)}
    result = ToolResult(status="ok", output=text, seconds=seconds, **declared)
    return _fit(result) if len(text) <= SHORT else await asyncio.to_thread(_fit, result)


def _fit(result: ToolResult) -> ToolResult:
    """The result for memory and prompts: without keys, at most MAX_OUTPUT, and no part of a prompt."""
    result = result.model_copy(update={"output": without_known(result.output)}).shortened(MAX_OUTPUT)
    return result.model_copy(update={"output": contained(result.output)})


def argument_problem(tool: BaseTool, arguments: object) -> str | None:
    """What is wrong with the arguments by the tool's schema, naming the field; None if nothing is."""
    if not isinstance(arguments, dict):
        return f"the arguments of {tool.name} must be an object, not {type(arguments).__name__}"
    schema = tool.tool_call_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            schema.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "arguments"
            return f"{field}: {first['msg']}"
        return None
    return _json_schema_problem(convert_to_openai_tool(tool)["function"].get("parameters", {}), arguments)


def _json_schema_problem(schema: Mapping[str, Any], arguments: dict[str, Any]) -> str | None:
    """Of a plain JSON schema, as MCP tools have it: required fields and top-level types; the server checks the rest."""
    for name in schema.get("required", []):
        if name not in arguments:
            return f"{name}: Field required"
    for name, value in arguments.items():
        expected = schema.get("properties", {}).get(name, {}).get("type")
        types = _JSON_TYPES.get(expected) if isinstance(expected, str) else None
        is_bool_as_number = isinstance(value, bool) and expected in ("integer", "number")
        if types and (not isinstance(value, types) or is_bool_as_number):
            return f"{name}: Input should be of type {expected}"
    return None


def _text(reply: object) -> str:
    """What a tool said, as text: content blocks are joined, and those that are not text are named."""
    content = reply.content if isinstance(reply, ToolMessage) else reply
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        content = "\n".join(_block_text(block) for block in content)
    return _valid(str(content)).strip()


def _valid(text: str) -> str:
    """`text` without lone surrogates, which cannot be written to a file or sent to a model."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _declared(reply: object, key: str) -> str:
    """What a tool of ours says of itself in its artifact: the sandbox's tier, the search engine."""
    artifact = reply.artifact if isinstance(reply, ToolMessage) else None
    return str(artifact.get(key, "")) if isinstance(artifact, Mapping) else ""


def _block_text(block: object) -> str:
    if isinstance(block, Mapping):
        return str(block["text"]) if "text" in block else f"[{block.get('type', 'content')}]"
    return str(block)
