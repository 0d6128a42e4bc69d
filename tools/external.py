"""External tools, named by a spec in the configuration.

    my_pkg.tools:search      a LangChain tool, a list of them, a toolkit, or a function without arguments that makes one
    mcp:...                  the tools of MCP servers: see `mcp.spec`
    fs=SPEC                  the tools of SPEC, with names that begin with fs_

Python tools are the user's code and run in this process with all its rights. MCP servers are separate processes.
"""

import asyncio
import inspect
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, InjectedToolCallId
from langchain_core.tools import tool as tool_of

from agentflow.tools.mcp import pins
from agentflow.tools.mcp.spec import SpecError, Unavailable
from agentflow.tools.mcp.spec import servers as mcp_servers
from agentflow.tools.mcp.tools import tools_of
from agentflow.tools.named_object import NamedObjectError, is_object_name, made_by, named_object
from agentflow.tools.untrusted_text import bounded_line

__all__ = ["SpecError", "Unavailable", "approve", "as_tool", "check_names", "is_external", "load"]

_log = logging.getLogger(__name__)

_PREFIXED = re.compile(r"([A-Za-z]\w*)=(.+)", re.ASCII | re.DOTALL)
_WRITABLE = re.compile(r"[A-Za-z0-9](?:[\w ./-]{0,62}[A-Za-z0-9])?", re.ASCII)


def is_external(spec: str) -> bool:
    """Return whether `spec` is not the name of a standard tool."""
    return ":" in spec


async def load(spec: str, unavailable: dict[str, str] | None = None) -> list[BaseTool]:
    """Return the tools that an external spec names. MCP servers of a file that cannot be used at present are left out,
    with the reason in `unavailable`, unless none can be used.

    Raises SpecError if the spec is invalid, which a retry does not help, and Unavailable if the tools cannot be used
    at present.
    """
    prefix, plain = _split(spec)
    if plain.startswith("mcp:"):
        servers = mcp_servers(plain.removeprefix("mcp:"))
        offers = await asyncio.gather(*map(tools_of, servers), return_exceptions=True)
        offered = dict(zip((server.name for server in servers), offers, strict=True))
        failed = {f"{spec}#{name}": offer for name, offer in offered.items() if isinstance(offer, BaseException)}
        for error in failed.values():
            if not isinstance(error, Unavailable) or len(failed) == len(servers):
                raise error
        if unavailable is not None:
            unavailable.update((name, str(error)) for name, error in failed.items())
        tools = _distinct([(name, tool) for name, of in offered.items() if isinstance(of, list) for tool in of])
    else:
        tools = await asyncio.to_thread(_of_python, plain)
    tools = [tool.model_copy(update={"name": f"{prefix}_{tool.name}"}) for tool in tools] if prefix else tools
    check_names((tool.name, spec) for tool in tools)
    return tools


def approve(spec: str) -> bool:
    """Accept the tools that a spec's MCP servers offer when next loaded. Return whether the spec names any servers.

    Raises SpecError if they do not exist.
    """
    plain = _split(spec)[1]
    servers = mcp_servers(plain.removeprefix("mcp:")) if plain.startswith("mcp:") else []
    for server in servers:
        pins.forget(server)
    return bool(servers)


def check_names(owned: Iterable[tuple[str, str]]) -> None:
    """Raise SpecError if a planner cannot write a name, or can confuse two. `owned` is (name, origin)."""
    owners: dict[str, tuple[str, str]] = {}
    for name, owner in owned:
        shown = bounded_line(name, 80)
        if not _WRITABLE.fullmatch(name):
            raise SpecError(
                f"a tool of {owner} is called '{shown}', which a planner cannot write; "
                "names are of up to 64 letters, digits, _, -, . and /",
                code="bad_name",
            )
        key = _key(name)
        if key in owners:
            other, its_owner = owners[key]
            raise SpecError(
                f"'{shown}' of {owner} and '{other}' of {its_owner} cannot be told apart; "
                "put a prefix before a spec, as in my=SPEC",
                code="ambiguous_name",
            )
        owners[key] = shown, owner


def _key(name: str) -> str:
    # The planner's reply is parsed alike: case, separators and a final "tool" make no difference.
    return re.sub(r"[\s_-]+", "", name.lower()).removesuffix("tool")


def _distinct(offered: Sequence[tuple[str, BaseTool]]) -> list[BaseTool]:
    """Return the tools of MCP servers: a name of several servers begins with the server's; one that a planner cannot
    write is left out.
    """
    owners = Counter(key for _, key in {(server, _key(tool.name)) for server, tool in offered})
    tools = []
    for server, tool in offered:
        if not _WRITABLE.fullmatch(tool.name):
            _log.warning("%s of %s is left out: a planner cannot write its name", bounded_line(tool.name, 80), server)
        elif owners[_key(tool.name)] > 1:
            own = re.sub(r"\W+", "_", server, flags=re.ASCII)
            tools.append(tool.model_copy(update={"name": f"{own}_{tool.name}"}))
        else:
            tools.append(tool)
    return tools


def _split(spec: str) -> tuple[str, str]:
    match = _PREFIXED.fullmatch(spec)
    return (match[1], match[2]) if match else ("", spec)


def _of_python(spec: str) -> list[BaseTool]:
    if not is_object_name(spec):
        raise SpecError(f"'{bounded_line(spec, 120)}' is no tool: write module:attribute or mcp:...", code="bad_spec")
    try:
        found: Any = named_object(spec)
        if not isinstance(found, BaseTool) and callable(found):
            found = made_by(found, spec, "tool", "; a function that is a tool itself has LangChain's @tool before it")
        if not isinstance(found, BaseTool) and callable(getattr(found, "get_tools", None)):
            found = made_by(found.get_tools, f"{spec}.get_tools", "tool")
    except NamedObjectError as error:
        raise SpecError(str(error), code=error.code) from error
    try:
        tools = [as_tool(one) for one in found] if isinstance(found, list | tuple) else [as_tool(found)]
    except TypeError as error:
        raise SpecError(f"{spec}: {error}", code="wrong_type") from error
    if not tools:
        raise SpecError(f"{spec} has no tools", code="wrong_type")
    return tools


def as_tool(given: Any) -> BaseTool:
    """Return a LangChain tool, also of a function with a docstring. Raises TypeError if it can never be called."""
    shown = bounded_line(repr(given), 120)
    if not isinstance(given, BaseTool) and not inspect.isroutine(given):
        raise TypeError(f"{shown} is no tool; give LangChain tools, functions or specs")
    try:
        tool = given if isinstance(given, BaseTool) else tool_of(given)
    except Exception as error:  # LangChain's reasons: no docstring, a type that no schema can have
        raise TypeError(f"{shown} cannot be made a tool ({bounded_line(str(error), 200)})") from error
    if injected := _injected(tool):
        raise TypeError(f"{tool.name} needs {', '.join(injected)}, which only LangGraph's ToolNode can give it")
    return tool


def _injected(tool: BaseTool) -> list[str]:
    """Return the required arguments that no caller can give: a runtime, a state, a store."""
    written, whole = (getattr(one, "model_fields", None) for one in (tool.tool_call_schema, tool.get_input_schema()))
    if written is None or whole is None:  # a JSON schema
        return []
    hidden = {name: field.metadata for name, field in whole.items() if field.is_required() and name not in written}
    return [name for name, marks in hidden.items() if not any(InjectedToolCallId in (one, type(one)) for one in marks)]
