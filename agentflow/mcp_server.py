"""MCP server that offers the agent to other assistants as one tool, `ask(question) -> answer`.

A client that requests progress gets a notification after every turn. Cancelling a call or disconnecting ends the run.
A failed run is reported as a one-line tool error. Calls are independent: no state is shared between them.
"""

import hmac
from typing import Annotated

from mcp.server.mcpserver import Context as Call
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agentflow.graph.agent import Agent
from agentflow.graph.as_tool import DESCRIPTION, answer_text
from agentflow.graph.context import Context
from agentflow.graph.loopback import LoopbackOnly
from agentflow.graph.run.run_events import Event
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import TraceTurn
from agentflow.tools.untrusted_text import bounded_line
from agentflow.version import __version__


def build_server(agent: Agent, context: Context) -> MCPServer[None]:
    """Return the server; every run uses the settings of `context`."""
    server: MCPServer[None] = MCPServer("agentflow", version=__version__, log_level="WARNING")

    @server.tool(
        description=DESCRIPTION,
        annotations=ToolAnnotations(title="Ask AgentFlow", open_world_hint=True),
        structured_output=False,
    )
    async def ask(question: Annotated[str, Field(description="The question, complete in itself.")], call: Call) -> str:
        if not question.strip():
            raise ToolError("the question is empty")

        async def report(event: Event) -> None:
            if isinstance(event, TraceTurn):
                await call.report_progress(event.turn, context.max_turns, _describe(event))

        trace = await run(agent, Task.from_question(question.strip()), context, on_event=report)
        if not trace.answer.strip():
            raise ToolError(trace.error or "the model gave no answer")
        return answer_text(trace)

    return server


def _describe(turn: TraceTurn) -> str:
    """Summarize a turn in one line, for a progress notification."""
    outcome = "" if turn.result.status == "ok" else f" (failed: {turn.result.error})"
    return bounded_line(f"{turn.tool or 'no tool'}: {turn.sub_goal or turn.result.output}{outcome}", 200)


def http_app(server: MCPServer[None], key: str = "") -> ASGIApp:
    """Return the ASGI app that serves MCP at /mcp.

    With a `key`, clients must send it as their bearer token and may use any host name. Without one, only requests
    addressed to a loopback name are served.
    """
    # The library's check of Host and Origin is off: LoopbackOnly makes it, as in our other servers.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: Starlette = server.streamable_http_app(transport_security=unchecked)
    return _with_key(app, key) if key else LoopbackOnly(app)


def _with_key(app: ASGIApp, key: str) -> ASGIApp:
    expected = f"Bearer {key}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        sent = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else None
        if sent is None or hmac.compare_digest(sent.encode("latin-1"), expected):
            return await app(scope, receive, send)
        refusal = PlainTextResponse("the key is missing or wrong", 401, {"WWW-Authenticate": "Bearer"})
        return await refusal(scope, receive, send)

    return guarded
