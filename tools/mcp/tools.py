"""The tools of an MCP server as LangChain tools, with the server's schema for arguments, and text output."""

import json
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool

from agentflow.tools.mcp import pins
from agentflow.tools.mcp.session import McpServer, server
from agentflow.tools.mcp.spec import ServerSpec, Unavailable
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, Tool


MAX_TOOLS = 128
"""Maximum number of tools per server; the planner's prompt lists them all."""
MAX_BYTES = 1 << 16
"""Maximum size of a tool's description and schema, before the card is made from them."""


async def tools_of(spec: ServerSpec) -> list[BaseTool]:
    """Return the server's tools. Raises Unavailable, also if they exceed the limits or have changed (`pins`)."""
    offering = server(spec)
    offered = await offering.tools()
    _check_size(spec, offered)
    pins.check(spec, offered)
    return [_tool(offering, tool) for tool in offered]


def _check_size(spec: ServerSpec, offered: "list[Tool]") -> None:
    if len(offered) > MAX_TOOLS:
        raise Unavailable(f"the MCP server {spec.name} offers more than {MAX_TOOLS} tools", code="too_large")
    for tool in offered:
        if len(tool.model_dump_json().encode()) > MAX_BYTES:
            name = bounded_line(tool.name, 80)
            raise Unavailable(
                f"the MCP server {spec.name} describes its tool {name} in more than {MAX_BYTES >> 10} KiB",
                code="too_large",
            )


def _tool(offering: McpServer, offered: "Tool") -> BaseTool:
    async def call(**arguments: Any) -> str:
        reply = await offering.call(offered.name, arguments)
        if reply.is_error:
            raise ToolFailure(ErrorClass.TOOL_ERROR, _text(reply) or f"{offered.name} failed and did not say why")
        return _text(reply)

    hints = offered.annotations
    changes = hints is not None and hints.destructive_hint is True and hints.read_only_hint is not True
    repeatable = hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
    card: dict[str, Any] = {"side_effects": not repeatable}
    if changes:
        card["limits"] = "It may change or delete what it works on."
    return _McpTool(
        name=offered.name,
        description=offered.description or offered.title or "",
        args_schema={"type": "object", "properties": {}, **offered.input_schema},
        coroutine=call,
        metadata={"agentflow": card},
    )


class _McpTool(StructuredTool):
    async def _arun(self, /, **arguments: Any) -> Any:  # type: ignore[override]
        """Call the server, also with arguments named `config` and `run_manager`, which LangChain would keep."""
        assert self.coroutine
        return await self.coroutine(**arguments)


def _text(reply: "CallToolResult") -> str:
    """Return a reply's blocks as text, or else its structured content."""
    text = "\n".join(_block(block) for block in reply.content)
    if text.strip() or reply.structured_content is None:
        return text
    return json.dumps(reply.structured_content, ensure_ascii=False, default=str)


def _block(block: "ContentBlock") -> str:
    """Return a block as text; for other content, its kind and location."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if isinstance(text, str) else f"[{block.resource.uri}, not text]"
