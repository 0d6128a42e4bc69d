"""Threads: the runs that are stored in a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from agentflow.graph.agent import Agent

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

    @classmethod
    def of(cls, name: str, snapshot: StateSnapshot) -> "Thread":
        """Return the thread whose last state is `snapshot`."""
        values = snapshot.values
        return cls(
            id=name,
            state=state_of(snapshot),
            updated=datetime.fromisoformat(snapshot.created_at or "1970-01-01T00:00:00+00:00"),
            question=str(values.get("question", "")),
            turns=len(values.get("memory") or []),
            answer=str(values.get("answer", "")),
        )


def config_of(thread: str) -> RunnableConfig:
    """Return the config for running the thread."""
    return {"configurable": {"thread_id": thread}}


def state_of(snapshot: StateSnapshot) -> ThreadState:
    """Return whether a thread's run is finished, waiting or unfinished."""
    if any(task.interrupts for task in snapshot.tasks):
        return "waiting"
    return "unfinished" if snapshot.next else "finished"


async def threads(agent: Agent) -> list[Thread]:
    """Return all threads in the SQLite file of the agent's checkpointer, the most recently used first."""
    saver: Any = agent.checkpointer
    # LangGraph has no list of threads, and `alist` reads every checkpoint.
    async with saver.lock, saver.conn.execute("SELECT DISTINCT thread_id FROM checkpoints") as rows:
        names = [name async for (name,) in rows]
    found = [Thread.of(name, await agent.aget_state(config_of(name))) for name in names]
    return sorted(found, key=lambda thread: thread.updated, reverse=True)


async def delete(agent: Agent, names: Sequence[str]) -> None:
    """Delete these threads from the SQLite file of the agent's checkpointer, which then takes less space."""
    saver: Any = agent.checkpointer
    for name in names:
        await saver.adelete_thread(name)
    async with saver.lock:
        await saver.conn.execute("VACUUM")
