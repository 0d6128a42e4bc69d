"""`agentflow mcp`: serve the agent as a tool of other assistants over the Model Context Protocol."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import MISUSED, fail, say
from agentflow.cli.listening import listen, serve_at, url_of
from agentflow.cli.option_groups import with_groups
from agentflow.cli.options import RunOptions, agent_of
from agentflow.version import pip_install

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

KEY = "AGENTFLOW_MCP_KEY"
"""Environment variable of the key that HTTP clients must send; unset for no key."""

app = typer.Typer()


@app.command(epilog="Example, in a client's settings: command agentflow, arguments mcp --model openai:gpt-4o-mini")
@with_groups
def mcp(
    options: RunOptions,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP, at /mcp, instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, typer.Option(help=f"Address for --http; one that others reach needs a key in {KEY}.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --http; 0 takes a free one.")] = 8765,
) -> None:
    """Serve the agent to other assistants as an MCP server with the tool ask(question)."""
    try:
        from agentflow.mcp_server import build_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        fail(f"this needs the package mcp; install it with: {pip_install('mcp')}", MISUSED)
    with _stdout_aside():
        context = options.build()
        agent = agent_of(context)

    server = build_server(agent, context)
    if http:
        _serve_http(server, host, port)
    else:
        _serve_stdio(server)


@contextmanager
def _stdout_aside() -> Iterator[None]:
    """Redirect stdout to stderr while tools load, since a client parses stdout as protocol from the first byte."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _serve_stdio(server: "MCPServer[None]") -> None:
    """Serve until stdin ends or Ctrl-C.

    The MCP library owns stdin and stdout meanwhile: handlers and their child processes see an empty stdin, and their
    output goes to stderr.
    """
    if sys.stdin.isatty():
        say("an MCP client is expected on stdin; --http serves over HTTP instead (Ctrl-C ends this)")
    ended: Future[None] = Future()

    def serve() -> None:
        try:
            asyncio.run(server.run_stdio_async())
        except Exception as error:  # raised again by ended.result()
            ended.set_exception(error)
        else:
            ended.set_result(None)

    # In a thread of its own: Ctrl-C cannot end an event loop while the library blocks on reading a line.
    Thread(target=serve, name="mcp", daemon=True).start()
    ended.result()


def _serve_http(server: "MCPServer[None]", host: str, port: int) -> None:
    from agentflow.mcp_server import http_app

    key = os.environ.get(KEY, "").strip()
    listening = listen(host, port, "" if key else f"set {KEY} to a key that clients must send")
    say(f"serving MCP at {url_of(host, listening)}/mcp (Ctrl-C ends it)")
    logging.getLogger("mcp").setLevel(logging.WARNING)
    serve_at(listening, http_app(server, key))
