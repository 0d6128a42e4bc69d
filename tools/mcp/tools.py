"""The tools of an MCP server as LangChain tools: arguments by the server's schema, text out, errors as errors."""

import json
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool

from agentflow.tools.mcp.session import McpServer, server
from agentflow.tools.mcp.spec import ServerSpec
from agentflow.tools.result import ErrorClass, ToolFailure

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, Tool


async def tools_of(spec: ServerSpec) -> list[BaseTool]:
    """What the server offers. Raises Unavailable."""
    offering = server(spec)
    return [_tool(offering, offered) for offered in await offering.tools()]


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
    return StructuredTool(
        name=offered.name,
        description=offered.description or offered.title or "",
        args_schema={"type": "object", "properties": {}, **offered.input_schema},
        coroutine=call,
        metadata={"agentflow": card},
    )


def _text(reply: "CallToolResult") -> str:
    """What a reply says: its blocks, else its structured content."""
    said = "\n".join(_block(block) for block in reply.content)
    if said.strip() or reply.structured_content is None:
        return said
    return json.dumps(reply.structured_content, ensure_ascii=False, default=str)


def _block(block: "ContentBlock") -> str:
    """A block as text; of what is not text, what it is and where."""
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
