"""Persistent MCP sessions: one per server and process, opened when first needed and shared by all runs.

The sessions run on a separate event loop in a thread, since runs use many loops and a session must be ended by the task
that started it. If a server ends, its pending calls fail and the next call restarts it. A server that did not answer,
or violated the protocol, is probed before its next call and restarted if that fails.

A subprocess inherits only HOME, PATH and the like from the environment, and cannot inspect this process
(`sandbox.isolate`). It is not confined otherwise, since it is the user's own program.
"""

import asyncio
import atexit
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from agentflow.tools.mcp.spec import ServerSpec, Unavailable, filled
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.sandbox import isolate
from agentflow.tools.untrusted_text import bounded_line
from agentflow.version import pip_install

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

OPEN_SECONDS = 60.0
"""Seconds for a server to start and list its tools; some are downloaded first."""
PROBE_SECONDS = 5.0
"""Seconds for the answer to a probe."""
CLOSE_SECONDS = 10.0
MAX_PAGES = 50
"""Maximum number of pages in a list of tools, so that a server cannot extend it forever."""
MAX_REPLY = 64 << 20
"""Maximum number of bytes in a reply over HTTP."""

_T = TypeVar("_T")


class McpServer:
    """One MCP server and its session."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._opening = asyncio.Lock()
        self._connection: _Connection | None = None

    async def tools(self) -> "list[Tool]":
        """Return the server's tools. Raises Unavailable."""
        return await self._patiently(self._list())

    async def call(self, tool: str, arguments: dict[str, Any]) -> "CallToolResult":
        """Return the server's reply, which may report an error of the tool. Raises ToolFailure if there is none."""
        return await self._patiently(self._call(tool, arguments))

    async def _patiently(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` on the sessions' loop.

        If the caller is cancelled, the connection is marked as suspect at once. The sessions' loop notices the
        cancellation only after the library has cleaned up, which is too late for the caller's next call.
        """
        try:
            with _lock:
                loop = _own_loop()
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except asyncio.CancelledError:
            if self._connection:
                self._connection.suspect = True
            raise

    async def close(self) -> None:
        """End the session, and the process if the server is one. Must run on the sessions' loop."""
        connection, self._connection = self._connection, None
        if connection:
            await connection.close()

    async def _list(self) -> "list[Tool]":
        connection = await self._open()
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                return [tool async for tool in _offered(connection.client)]
        except Exception as error:  # the library may raise any exception
            await self._forget(connection)
            raise Unavailable(
                f"the MCP server {self.spec.name} does not list its tools ({_reason(error)})", code="unreachable"
            ) from error

    async def _call(self, tool: str, arguments: dict[str, Any]) -> "CallToolResult":
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            connection = await self._open()
        except Unavailable as error:
            raise ToolFailure(ErrorClass.TOOL_ERROR, str(error)) from error
        try:
            return await connection.client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                connection.suspect = True  # a restarted HTTP server does not know the session
                raise ToolFailure(ErrorClass.TOOL_ERROR, error.message) from error
            await self._forget(connection)
            why = f"the connection to the MCP server {self.spec.name} ended ({bounded_line(error.message, 200)})"
            raise ToolFailure(ErrorClass.TOOL_ERROR, f"{why}; the next call opens it again") from error

    async def _open(self) -> "_Connection":
        """Return the connection. Open one if there is none that is alive. Raises Unavailable."""
        async with self._opening:
            if self._connection and self._connection.suspect and not await self._connection.lives():
                await self.close()
            if self._connection is None or self._connection.over:
                self._connection = _Connection(self.spec)
            connection = self._connection
            await asyncio.shield(connection.ready)
            return connection

    async def _forget(self, connection: "_Connection") -> None:
        if self._connection is connection:
            await self.close()


class _Connection:
    """One session, with a task that opens, holds and closes it."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when calls can be made; fails with Unavailable."""
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # even if nobody waits
        self.suspect = False
        """True if a call was abandoned or the protocol failed. The server is then probed before the next call."""
        self.client: Client
        self._end = asyncio.Event()
        # An empty context, since the context of the run that opens the session holds its callbacks.
        self._task = asyncio.get_running_loop().create_task(self._serve(), context=Context())

    @property
    def over(self) -> bool:
        return self._task.done()

    async def lives(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self.client.list_tools(cache_mode="bypass")
        except Exception:
            return False
        self.suspect = False
        return True

    async def close(self) -> None:
        self._end.set()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)

    async def _serve(self) -> None:
        last_words = _LastWords()
        try:
            async with asyncio.timeout(OPEN_SECONDS) as limit, _connected(self.spec, last_words) as self.client:
                limit.reschedule(None)
                self.ready.set_result(None)
                await self._end.wait()
        except Exception as error:  # the library may raise any exception, also in groups
            if not self.ready.done():
                self.ready.set_exception(self._unavailable(error, last_words))
        finally:
            self.ready.cancel()
            last_words.close()

    def _unavailable(self, error: Exception, last_words: "_LastWords") -> Unavailable:
        if isinstance(error, Unavailable):
            return error
        name = self.spec.name
        if isinstance(error, ImportError):
            return Unavailable(
                f"the MCP server {name} needs the package mcp; install it with: {pip_install('mcp')}",
                code="missing_package",
            )
        stderr = f"; it said: {last_words.text}" if last_words.text else ""
        what = "did not start" if self.spec.command else "cannot be reached"
        return Unavailable(f"the MCP server {name} {what} ({_reason(error)}){stderr}", code="unreachable")


@asynccontextmanager
async def _connected(spec: ServerSpec, last_words: "_LastWords") -> "AsyncIterator[Client]":
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import logger, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if spec.url:
        import httpx2

        headers = {name: filled(value, spec.name) for name, value in spec.headers}
        accepted = signature(streamable_http_client).parameters  # older versions have no limit on a reply
        limits: Any = {"max_sse_event_size": MAX_REPLY} if "max_sse_event_size" in accepted else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http,
            Client(
                streamable_http_client(filled(spec.url, spec.name), http_client=http, **limits), cache=None
            ) as client,
        ):
            yield client
        return
    environment = {name: filled(value, spec.name) for name, value in spec.environment}
    program = [filled(word, spec.name) for word in spec.command]
    if not shutil.which(program[0], path=environment.get("PATH")):
        raise Unavailable(
            f"the MCP server {spec.name} needs the command {program[0]}; install it", code="missing_command"
        )
    command, *arguments = isolate.command(program)
    logger.addFilter(_without_traceback)
    server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=spec.folder)
    async with Client(stdio_client(server, errlog=last_words.file), cache=None) as client:
        yield client


def _without_traceback(record: logging.LogRecord) -> bool:
    """Keep a server's log line on its standard output to one line; a filter that is added again is added once."""
    record.exc_info = None
    return True


async def _offered(client: "Client") -> "AsyncIterator[Tool]":
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        if (cursor := page.next_cursor) is None:
            return


class _LastWords:
    """The end of a process's standard error, for the message on why it did not start."""

    def __init__(self) -> None:
        self.text = ""
        self._reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w")
        """The file to which the process writes."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.file.close()

    def _read(self) -> None:
        text = os.read(self._reading, 65536).decode("utf-8", "replace").strip()
        self.text = bounded_line(text.rpartition("\n")[2], 300) or self.text


def _reason(error: BaseException) -> str:
    """Return an error on one line; for a group, the first error in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer in {OPEN_SECONDS:.0f} seconds"
    return bounded_line(f"{type(error).__name__}: {error}".rstrip(": "), 300)


def server(spec: ServerSpec) -> McpServer:
    """Return the server of a spec; the same object for the same spec."""
    with _lock:
        return _servers.setdefault(spec, McpServer(spec))


@lru_cache(maxsize=1)
def _own_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="mcp", daemon=True)
    thread.start()
    atexit.register(_stop, loop, thread, os.getpid())
    return loop


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if os.getpid() == process:
        close_sessions()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def close_sessions() -> None:
    """End all sessions, and the servers that are subprocesses. Each is opened again when next needed."""

    async def close() -> None:
        await asyncio.gather(*(one.close() for one in _servers.values()))

    if _servers:
        asyncio.run_coroutine_threadsafe(close(), _own_loop()).result()


def _forget_all() -> None:
    """Reset the sessions in a forked process, since threads do not survive a fork."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()
    _own_loop.cache_clear()


_lock = threading.Lock()
"""Held while a server or the loop is looked up, so that each exists once."""
_servers: dict[ServerSpec, McpServer] = {}
os.register_at_fork(after_in_child=_forget_all)
