"""Checkpointers for runs: memory, SQLite or PostgreSQL, selected by one setting.

    memory                       lost when the process ends
    sqlite:PATH, or a path       a local file
    postgres://USER@HOST/NAME    a server

Anyone with write access to such a database could insert an object of any class. So only the types of AgentFlow's state
are deserialised as objects, regardless of LANGGRAPH_STRICT_MSGPACK. Other values stay plain data, and LangGraph logs
that they were blocked.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentflow.graph.state import Action, PendingCall, Plan, Turn, Verdict
from agentflow.tools.coded_error import CodedError
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.untrusted_text import bounded_line
from agentflow.version import pip_install

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow
    from psycopg_pool import AsyncConnectionPool

STATE_TYPES = (Action, ErrorClass, PendingCall, Plan, ToolResult, Turn, Verdict)
"""Types that are deserialised as objects, in addition to LangChain's messages and the types that LangGraph allows."""

CONNECT_SECONDS = 10
BUSY_SECONDS = 30.0
"""Seconds for which a run waits for another process that writes to the same file."""
POOL = 10
"""Maximum number of connections to PostgreSQL, which runs share."""


class CheckpointError(CodedError):
    """A checkpointer that cannot be used. The message is one line with the cause and the remedy, without a password."""

    def __init__(self, problem: str, *, code: str = "", configuration: bool = False) -> None:
        """Set the message. `configuration` is True for an error in the settings, and False for one that may be
        temporary.
        """
        super().__init__(problem, code=code)
        self.configuration = configuration


class StateSerializer(JsonPlusSerializer):
    """LangGraph's serialiser, restricted to objects of `STATE_TYPES`."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        """Set the types. `types` are further ones, of a custom state."""
        super().__init__(allowed_msgpack_modules=[*STATE_TYPES, *types])

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value. Raises CheckpointError for damaged data, and for JSON, which this package never writes and
        which can name constructors.
        """
        if data[0] == "json":
            raise CheckpointError(
                "a checkpoint holds objects written as JSON, which this version does not read", code="json_object"
            )
        with _damage():
            return super().loads_typed(data)


@contextmanager
def _damage() -> Iterator[None]:
    """Raise CheckpointError for what a parser of stored data raises."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"a checkpoint is damaged ({bounded_line(str(error), 200)})", code="damaged") from error


@asynccontextmanager
async def open_checkpointer(
    spec: str = "memory", types: Iterable[type] = ()
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Open a checkpointer for `build_graph`, usable until the block ends.

    Args:
        spec: "memory", "sqlite:PATH" or a path, or "postgres://USER:PASSWORD@HOST:PORT/DATABASE".
        types: Further classes that may be deserialised as objects, such as those of a custom state.

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
        raise CheckpointError(problem, configuration=True, code="bad_spec")
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
        raise CheckpointError(
            f"keeping runs in SQLite needs {error.name}; install it with: {pip_install('durable')}",
            configuration=True,
            code="missing_package",
        ) from error

    class Saver(AsyncSqliteSaver):
        """Also raises CheckpointError for metadata, which it parses as JSON."""

        async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
            with _damage():
                return await super().aget_tuple(config)

    path = _writable(name)
    try:
        async with aiosqlite.connect(path, timeout=BUSY_SECONDS) as connection:
            saver = Saver(connection, serde=serializer)
            await saver.setup()
            yield saver
    except sqlite3.Error as error:
        raise CheckpointError(
            f"the checkpoints in {path} cannot be used ({bounded_line(str(error), 200)})", code="unusable"
        ) from error


def _writable(name: str) -> Path:
    """Return the file, and create it if it does not exist. Raises CheckpointError."""
    path = Path(name).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # questions are private to the user
    except OSError as error:
        raise CheckpointError(
            f"cannot write to {path} ({error.strerror}); choose another place", configuration=True, code="unwritable"
        ) from error
    return path


@asynccontextmanager
async def _postgres(url: str, serializer: StateSerializer) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        problem = f"keeping runs in PostgreSQL needs {error.name}; install it with: {pip_install('durable')}"
        raise CheckpointError(problem, configuration=True, code="missing_package") from error
    try:
        await _reach(url)
        async with _pool(url) as pool:
            saver = AsyncPostgresSaver(pool, serde=serializer)
            await saver.setup()
            yield saver
    except psycopg.Error as error:
        raise CheckpointError(
            f"the checkpoints in {_shown(url)} cannot be used ({_message(error, url)})", code="unusable"
        ) from error


async def _reach(url: str) -> None:
    """Open a first connection, since its error is raised at once and a pool would only log it."""
    import psycopg

    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=CONNECT_SECONDS)
    except psycopg.ProgrammingError as error:
        problem = "the URL of the PostgreSQL server cannot be read; write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        raise CheckpointError(problem, configuration=True, code="bad_url") from error
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
        check=AsyncConnectionPool.check_connection,  # reconnects after a restart of the server
        open=False,
    )


def _shown(url: str) -> str:
    """Return the server and database of a URL, without user and password."""
    parts = urlsplit(url)
    return bounded_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 120)


def _message(error: Exception, url: str) -> str:
    """Return a driver's error on one line, without the password."""
    message = str(error) or type(error).__name__
    password = urlsplit(url).password or ""
    for secret in {password, unquote(password)} - {""}:
        message = message.replace(secret, "***")
    return bounded_line(message, 300)
