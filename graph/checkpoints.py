"""Checkpointers for runs: memory, or a file of SQLite. Other databases have LangGraph's own savers, which take
`StateSerializer` as their `serde`.

Anyone with write access to such a database could insert an object of any class. So only the types of AgentFlow's state
are deserialised as objects, regardless of LANGGRAPH_STRICT_MSGPACK. Other values stay plain data, and LangGraph logs
that they were blocked.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentflow.graph.state import Action, PendingCall, Plan, Turn, Verdict
from agentflow.tools.coded_error import CodedError
from agentflow.tools.result import ErrorClass, ToolResult
from agentflow.tools.untrusted_text import bounded_line
from agentflow.version import pip_install

STATE_TYPES = (Action, ErrorClass, PendingCall, Plan, ToolResult, Turn, Verdict)
"""Types that are deserialised as objects, in addition to LangChain's messages and the types that LangGraph allows."""

BUSY_SECONDS = 30.0
"""Seconds for which a run waits for another process that writes to the same file."""


class CheckpointError(CodedError):
    """A checkpointer that cannot be used. The message is one line with the cause and the remedy."""

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
        spec: "memory", which is lost when the process ends, or "sqlite:PATH" or a path.
        types: Further classes that may be deserialised as objects, such as those of a custom state.

    Raises:
        CheckpointError: It cannot be opened, or the database fails while the block runs.
    """
    serializer = StateSerializer(types)
    if spec == "memory":
        yield InMemorySaver(serde=serializer)
    elif "://" in spec or not spec.removeprefix("sqlite:").strip():
        shown = bounded_line(spec.partition("://")[0], 40)
        problem = f"'{shown}' is no place for checkpoints: write memory or sqlite:PATH"
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
