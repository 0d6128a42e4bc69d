"""Where runs are kept: in memory, in SQLite or in PostgreSQL, behind one setting.

    memory                       until the process ends
    sqlite:PATH, or a path       a file of this machine
    postgres://USER@HOST/NAME    a server

Whoever can write to such a database could plant an object of any class. So only the types of our state come back as
objects, whatever LANGGRAPH_STRICT_MSGPACK says; all else stays plain data, and LangGraph logs that it was blocked.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentflow.graph.state import Action, Plan, Turn, Verdict
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow
    from psycopg_pool import AsyncConnectionPool

STATE_TYPES = (Action, ErrorClass, Plan, ToolResult, Turn, Verdict)
"""What comes back as an object, beside LangChain's messages and what LangGraph holds to be harmless."""

CONNECT_SECONDS = 10
BUSY_SECONDS = 30.0
"""How long a run waits for another process that writes to the same file."""
POOL = 10
"""Most connections to PostgreSQL: runs share them."""

_INSTALL = "install it with: pip install 'agentflow-langgraph[durable]'"


class CheckpointError(Exception):
    """Runs cannot be kept where they should be; one line says why and what to do. It holds no password."""

    def __init__(self, problem: str, *, configuration: bool = False) -> None:
        """`configuration` tells what a person must set right from what may pass by itself."""
        super().__init__(problem)
        self.configuration = configuration


class StateSerializer(JsonPlusSerializer):
    """LangGraph's serialiser, which builds objects of `STATE_TYPES` only."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        """`types` are those of a state of your own."""
        super().__init__(allowed_msgpack_modules=[*STATE_TYPES, *types])

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value. Raises CheckpointError for a form that we never write: JSON, which names constructors too."""
        if data[0] == "json":
            raise CheckpointError("a checkpoint holds objects written as JSON, which this version does not read")
        return super().loads_typed(data)


@asynccontextmanager
async def open_checkpointer(
    spec: str = "memory", types: Iterable[type] = ()
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """A checkpointer for `build_graph`, ready for use until the block ends.

    Args:
        spec: "memory", "sqlite:PATH" or a path, or "postgres://USER:PASSWORD@HOST:PORT/DATABASE".
        types: Classes, beside those of AgentFlow's state, that may come back as objects: those of a state of your own.

    Raises:
        CheckpointError: It cannot be opened, or the database fails while the block runs.
    """
    serializer = StateSerializer(types)
    if spec == "memory":
        yield InMemorySaver(serde=serializer)
    elif spec.startswith(("postgres://", "postgresql://")):
        async with _postgres(spec, serializer) as saver:
            yield saver
    elif "://" in spec or not spec.removeprefix("sqlite:").strip():
        shown = bounded_line(spec.partition("://")[0], 40)
        problem = f"'{shown}' is no place for checkpoints: write memory, sqlite:PATH or postgres://..."
        raise CheckpointError(problem, configuration=True)
    else:
        async with _sqlite(spec.removeprefix("sqlite:"), serializer) as saver:
            yield saver


@asynccontextmanager
async def _sqlite(name: str, serializer: StateSerializer) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    import sqlite3

    try:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    except ImportError as error:
        raise CheckpointError(f"keeping runs in SQLite needs {error.name}; {_INSTALL}", configuration=True) from error
    path = _writable(name)
    try:
        async with aiosqlite.connect(path, timeout=BUSY_SECONDS) as connection:
            saver = AsyncSqliteSaver(connection, serde=serializer)
            await saver.setup()
            yield saver
    except sqlite3.Error as error:
        raise CheckpointError(f"the checkpoints in {path} cannot be used ({bounded_line(str(error), 200)})") from error


def _writable(name: str) -> Path:
    """The file, made if it is not there. Raises CheckpointError."""
    path = Path(name).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # what people asked is nobody else's business
    except OSError as error:
        raise CheckpointError(
            f"cannot write to {path} ({error.strerror}); choose another place", configuration=True
        ) from error
    return path


@asynccontextmanager
async def _postgres(url: str, serializer: StateSerializer) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        problem = f"keeping runs in PostgreSQL needs {error.name}; {_INSTALL}"
        raise CheckpointError(problem, configuration=True) from error
    try:
        await _reach(url)
        async with _pool(url) as pool:
            saver = AsyncPostgresSaver(pool, serde=serializer)
            await saver.setup()
            yield saver
    except psycopg.Error as error:
        raise CheckpointError(f"the checkpoints in {_shown(url)} cannot be used ({_said(error, url)})") from error


async def _reach(url: str) -> None:
    """A first connection, which says at once what a pool would only log."""
    import psycopg

    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=CONNECT_SECONDS)
    except psycopg.ProgrammingError as error:
        problem = "the URL of the PostgreSQL server cannot be read; write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        raise CheckpointError(problem, configuration=True) from error
    await connection.close()


def _pool(url: str) -> "AsyncConnectionPool[AsyncConnection[DictRow]]":
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow, dict_row
    from psycopg_pool import AsyncConnectionPool

    kind: type[AsyncConnection[DictRow]] = AsyncConnection
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    return AsyncConnectionPool(
        url,
        connection_class=kind,
        kwargs=options,
        min_size=1,
        max_size=POOL,
        timeout=CONNECT_SECONDS,
        check=AsyncConnectionPool.check_connection,  # a server that was started anew is found again
        open=False,
    )


def _shown(url: str) -> str:
    """The server and database that a URL names, without who and with what password."""
    parts = urlsplit(url)
    return bounded_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 120)


def _said(error: Exception, url: str) -> str:
    """What a driver said, in one line, without the password."""
    said = str(error) or type(error).__name__
    password = urlsplit(url).password or ""
    for secret in {password, unquote(password)} - {""}:
        said = said.replace(secret, "***")
    return bounded_line(said, 300)
