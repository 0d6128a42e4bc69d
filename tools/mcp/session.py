"""MCP sessions that last: one for each server and process, opened when first needed, shared by all runs.

The sessions live on an event loop of their own, in a thread: runs come and go on many loops, and a session must be
ended by the task that began it. A server that ends takes the calls under way with it, as errors; the next call starts
it again. One that did not answer, or not as it should, is first asked for a sign of life, and is else started anew.

A subprocess gets none of our environment but HOME, PATH and the like, and is started so that it cannot look into this
process (`sandbox.isolate`). It is not confined otherwise: it is the user's own program.
"""

import asyncio
import atexit
import os
import shutil
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from agentflow.tools.mcp.spec import ServerSpec, Unavailable, filled
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.sandbox import isolate
from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

OPEN_SECONDS = 60.0
"""Time for a server to start and to say what it offers; some are downloaded first."""
PROBE_SECONDS = 5.0
"""Time for a sign of life."""
CLOSE_SECONDS = 10.0
MAX_PAGES = 50
"""Pages of a list of tools: a server must not keep us reading for ever."""

_INSTALL = "needs the package mcp; install it with: pip install 'agentflow-langgraph[mcp]'"
_T = TypeVar("_T")


class McpServer:
    """One server."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._opening = asyncio.Lock()
        self._connection: _Connection | None = None

    async def tools(self) -> "list[Tool]":
        """What the server offers. Raises Unavailable."""
        return await self._patiently(self._list())

    async def call(self, tool: str, arguments: dict[str, Any]) -> "CallToolResult":
        """The server's reply, which may be an error of the tool's. Raises ToolFailure if there is none."""
        return await self._patiently(self._call(tool, arguments))

    async def _patiently(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Work on the sessions' loop. Where it is given up, the caller's next call must find the connection suspect,
        which the sessions' loop learns only when the library has tidied up."""
        try:
            return await _on_own_loop(work)
        except asyncio.CancelledError:
            if self._connection:
                self._connection.suspect = True
            raise

    async def close(self) -> None:
        """Ends the session, and the process if the server is one; for the sessions' own loop."""
        connection, self._connection = self._connection, None
        if connection:
            await connection.close()

    async def _list(self) -> "list[Tool]":
        connection = await self._open()
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                return [tool async for tool in _offered(connection.client)]
        except Exception as error:  # whatever a foreign server makes the library raise
            await self._forget(connection)
            raise Unavailable(f"the MCP server {self.spec.name} does not list its tools ({_said(error)})") from error

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
                connection.suspect = True  # an HTTP server that was started anew does not know the session
                raise ToolFailure(ErrorClass.TOOL_ERROR, error.message) from error
            await self._forget(connection)
            problem = f"the connection to the MCP server {self.spec.name} ended; the next call opens it again"
            raise ToolFailure(ErrorClass.TOOL_ERROR, problem) from error

    async def _open(self) -> "_Connection":
        """The connection, opened if there is none, or none that lives. Raises Unavailable."""
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
    """One session, in a task that opens it, keeps it, and closes it."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when calls may be made; fails with Unavailable."""
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # even if nobody waits
        self.suspect = False
        """Whether a call was given up, or the protocol failed: it is asked for a sign of life before the next one."""
        self.client: Client
        self._end = asyncio.Event()
        # A context of its own: that of the run which happens to open it holds its callbacks.
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
        except Exception as error:  # a foreign server, and a library that raises groups of whatever it met
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
            return Unavailable(f"the MCP server {name} {_INSTALL}")
        said = f"; it said: {last_words.text}" if last_words.text else ""
        what = "did not start" if self.spec.command else "cannot be reached"
        return Unavailable(f"the MCP server {name} {what} ({_said(error)}){said}")


@asynccontextmanager
async def _connected(spec: ServerSpec, last_words: "_LastWords") -> "AsyncIterator[Client]":
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if spec.url:
        import httpx2

        headers = {name: filled(value, spec.name) for name, value in spec.headers}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http,
            Client(streamable_http_client(filled(spec.url, spec.name), http_client=http), cache=None) as client,
        ):
            yield client
        return
    environment = {name: filled(value, spec.name) for name, value in spec.environment}
    program = [filled(word, spec.name) for word in spec.command]
    if not shutil.which(program[0], path=environment.get("PATH")):
        raise Unavailable(f"the MCP server {spec.name} needs the command {program[0]}; install it")
    command, *arguments = isolate.command(program)
    server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=spec.folder)
    async with Client(stdio_client(server, errlog=last_words.file), cache=None) as client:
        yield client


async def _offered(client: "Client") -> "AsyncIterator[Tool]":
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        if (cursor := page.next_cursor) is None:
            return


class _LastWords:
    """The end of what a process wrote to stderr, for the line that says why it did not start."""

    def __init__(self) -> None:
        self.text = ""
        self._reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w")
        """For the process to write to."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.file.close()

    def _read(self) -> None:
        said = os.read(self._reading, 65536).decode("utf-8", "replace").strip()
        self.text = bounded_line(said.rpartition("\n")[2], 300) or self.text


def _said(error: BaseException) -> str:
    """An error in a line; of a group, the first of those that are in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer in {OPEN_SECONDS:.0f} seconds"
    return bounded_line(f"{type(error).__name__}: {error}".rstrip(": "), 300)


def server(spec: ServerSpec) -> McpServer:
    """The server of a spec; the same object for the same spec."""
    with _lock:
        return _servers.setdefault(spec, McpServer(spec))


async def _on_own_loop(work: Coroutine[Any, Any, _T]) -> _T:
    with _lock:
        loop = _own_loop()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


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
    """Ends all sessions, and the servers that are subprocesses; each is opened again when it is next needed."""

    async def close() -> None:
        await asyncio.gather(*(one.close() for one in _servers.values()))

    if _servers:
        asyncio.run_coroutine_threadsafe(close(), _own_loop()).result()


def _forget_all() -> None:
    """A process that this one forked opens sessions of its own: threads do not survive a fork."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()
    _own_loop.cache_clear()


_lock = threading.Lock()
"""Held while a server or the loop is looked up, so that there is one of each."""
_servers: dict[ServerSpec, McpServer] = {}
os.register_at_fork(after_in_child=_forget_all)
