"""Threads: the runs stored in a database, and their size.

A run writes a checkpoint after every step, from each of which it can be resumed or forked. For a finished run, usually
only the last checkpoint is useful: `prune` deletes the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import StateSnapshot

from agentflow.graph.agent import Agent
from agentflow.graph.checkpoints import CheckpointError

ThreadState = Literal["finished", "waiting", "unfinished"]
"""Answered or given up; waiting for a person; interrupted, and resumable."""


@dataclass(frozen=True)
class Thread:
    """A thread, as of its last checkpoint."""

    id: str
    state: ThreadState
    updated: datetime
    question: str
    turns: int
    answer: str
    checkpoints: int
    bytes: int
    """Size of its rows in bytes, without indexes."""

    @classmethod
    def of(cls, name: str, snapshot: StateSnapshot, size: "Size") -> "Thread":
        """Return the thread whose last state is `snapshot`."""
        values = snapshot.values
        return cls(
            id=name,
            state=state_of(snapshot),
            updated=datetime.fromisoformat(snapshot.created_at or "1970-01-01T00:00:00+00:00"),
            question=str(values.get("question", "")),
            turns=len(values.get("memory") or []),
            answer=str(values.get("answer", "")),
            checkpoints=size.checkpoints,
            bytes=size.bytes,
        )


@dataclass(frozen=True)
class Size:
    """The stored size of a thread."""

    checkpoints: int
    bytes: int


def config_of(thread: str) -> RunnableConfig:
    """Return the config for running the thread."""
    return {"configurable": {"thread_id": thread}}


def state_of(snapshot: StateSnapshot) -> ThreadState:
    """Return whether a thread's run is finished, waiting or unfinished."""
    if any(task.interrupts for task in snapshot.tasks):
        return "waiting"
    return "unfinished" if snapshot.next else "finished"


async def threads(agent: Agent) -> list[Thread]:
    """Return all threads of the agent's checkpointer, the most recently used first. Raises CheckpointError."""
    sizes = await _store(agent).sizes()
    found = [Thread.of(name, await agent.aget_state(config_of(name)), size) for name, size in sizes.items()]
    return sorted(found, key=lambda thread: thread.updated, reverse=True)


async def prune(agent: Agent, names: Sequence[str]) -> None:
    """Delete all checkpoints of these threads except the last. An interrupted run can still be resumed."""
    store = _store(agent)
    await store.keep_last(names)
    await store.give_back_space()


async def delete(agent: Agent, names: Sequence[str]) -> None:
    """Delete these threads."""
    store = _store(agent)
    for name in names:
        await store.saver.adelete_thread(name)
    await store.give_back_space()


class _Sqlite:
    """Threads in an SQLite file. Its LangGraph library has no pruning."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    async def sizes(self) -> dict[str, Size]:
        query = """
            SELECT thread_id, sum(kept), sum(bytes) FROM (
                SELECT thread_id, 1 AS kept, length(thread_id) + length(checkpoint_id) * 2
                    + length(checkpoint) + length(metadata) AS bytes FROM checkpoints
                UNION ALL
                SELECT thread_id, 0, length(thread_id) + length(checkpoint_id) + length(task_id)
                    + length(channel) + coalesce(length(value), 0) FROM writes
            ) GROUP BY thread_id"""
        async with self.saver.lock, self.saver.conn.execute(query) as rows:
            return {name: Size(int(kept), int(size)) async for name, kept, size in rows}

    async def keep_last(self, names: Sequence[str]) -> None:
        async with self.saver.lock:
            for name in names:
                for table in ("checkpoints", "writes"):
                    await self.saver.conn.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < ("  # noqa: S608 - constants
                        "SELECT max(checkpoint_id) FROM checkpoints AS last WHERE last.thread_id = ? "
                        f"AND last.checkpoint_ns = {table}.checkpoint_ns)",
                        (name, name),
                    )
            await self.saver.conn.commit()

    async def give_back_space(self) -> None:
        async with self.saver.lock:
            await self.saver.conn.execute("VACUUM")
            await self.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class _Postgres:
    """Threads on a PostgreSQL server."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    async def sizes(self) -> dict[str, Size]:
        query = """
            SELECT thread_id, sum(kept) AS kept, sum(bytes) AS bytes FROM (
                SELECT thread_id, 1 AS kept, pg_column_size(c.*) AS bytes FROM checkpoints c
                UNION ALL SELECT thread_id, 0, pg_column_size(b.*) FROM checkpoint_blobs b
                UNION ALL SELECT thread_id, 0, pg_column_size(w.*) FROM checkpoint_writes w
            ) AS rows GROUP BY thread_id"""
        async with self.saver.conn.connection() as connection:
            rows = await (await connection.execute(query)).fetchall()
        return {row["thread_id"]: Size(int(row["kept"]), int(row["bytes"])) for row in rows}

    async def keep_last(self, names: Sequence[str]) -> None:
        await self.saver.aprune(names)

    async def give_back_space(self) -> None:
        """Free space for later rows. Only VACUUM FULL would shrink the files, but it locks out all runs."""
        async with self.saver.conn.connection() as connection:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                await connection.execute(f"VACUUM {table}")


def _store(agent: Agent) -> _Sqlite | _Postgres:
    saver = agent.checkpointer
    kinds = [kind.__name__ for kind in type(saver).__mro__] if isinstance(saver, BaseCheckpointSaver) else []
    if "AsyncSqliteSaver" in kinds:
        return _Sqlite(saver)
    if "AsyncPostgresSaver" in kinds:
        return _Postgres(saver)
    raise CheckpointError(
        "threads are kept in SQLite or PostgreSQL; memory forgets them with the process", code="not_kept"
    )
