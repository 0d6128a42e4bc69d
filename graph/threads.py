"""Threads: the runs that are stored in a database, and what is needed to resume the last one.

The settings of a run are not part of the graph's state. They are stored in the metadata of its checkpoints, so that a
resumed run has the same models and tools.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from pydantic import ValidationError

from agentflow.graph.agent import Agent
from agentflow.graph.checkpoints import CheckpointError
from agentflow.graph.context import Context
from agentflow.graph.conversation import asked, exchanged
from agentflow.graph.state import State, Turn
from agentflow.nodes.attachments import texts

CONTEXT = "agentflow_context"
"""Key in a checkpoint's metadata for the settings of its run, as JSON without defaults."""

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


@dataclass(frozen=True)
class SavedThread:
    """A thread with its last run."""

    state: ThreadState
    earlier: list[BaseMessage]
    """Messages before the last question."""
    question: str
    analysis: str
    answer: str
    turns: list[Turn]
    context: Context
    waits: Any
    """Value of the pending interrupt: a `Proposal`, for a call that needs approval, or a tool's own; None if none."""


def config_of(thread: str, context: Context | None = None) -> RunnableConfig:
    """Return the config of a thread; with the settings of a run that is checkpointed, to run it."""
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    return {**config, "metadata": {CONTEXT: context.model_dump_json(exclude_defaults=True)}} if context else config


async def threads(agent: Agent) -> list[Thread]:
    """Return all threads in the SQLite file of the agent's checkpointer, the most recently used first."""
    saver: Any = agent.checkpointer
    # LangGraph has no list of threads, and `alist` reads every checkpoint.
    async with saver.lock, saver.conn.execute("SELECT DISTINCT thread_id FROM checkpoints") as rows:
        names = [name async for (name,) in rows]
    found = [_thread(name, await agent.aget_state(config_of(name))) for name in names]
    return sorted(found, key=lambda thread: thread.updated, reverse=True)


async def delete(agent: Agent, names: Sequence[str]) -> None:
    """Delete these threads from the SQLite file of the agent's checkpointer, which then takes less space."""
    saver: Any = agent.checkpointer
    for name in names:
        await saver.adelete_thread(name)
    async with saver.lock:
        await saver.conn.execute("VACUUM")


async def saved_thread(agent: Agent, thread: str) -> SavedThread | None:
    """Return the last run of a thread, None if there is none.

    Raises CheckpointError if another version or another graph wrote it.
    """
    snapshot = await agent.aget_state(config_of(thread))
    if not snapshot.values:
        return None
    try:
        state = State.model_validate(snapshot.values)
        context = Context.model_validate_json(str((snapshot.metadata or {}).get(CONTEXT, "{}")))
    except ValidationError as error:
        raise CheckpointError(
            f"thread {thread} cannot be resumed: another version or another graph wrote it "
            f"({error.errors()[0]['loc']}: {error.errors()[0]['msg']})",
            code="other_version",
        ) from error
    if "analyst" in snapshot.next:  # interrupted before its first node: the values are those of the previous run
        last = asked(state.messages)
        state = State(messages=state.messages, question=texts(last) if last else "")
    said = exchanged(state.messages)
    last = asked(said)
    return SavedThread(
        state=_state(snapshot),
        earlier=said[: said.index(last)] if last else [],
        question=state.question,
        analysis=state.analysis,
        answer=state.answer,
        turns=state.memory,
        context=context,
        waits=next(iter(_waits(snapshot)), None),
    )


def _thread(name: str, snapshot: StateSnapshot) -> Thread:
    values = snapshot.values
    return Thread(
        id=name,
        state=_state(snapshot),
        updated=datetime.fromisoformat(snapshot.created_at or "1970-01-01T00:00:00+00:00"),
        question=str(values.get("question", "")),
        turns=len(values.get("memory") or []),
        answer=str(values.get("answer", "")),
    )


def _state(snapshot: StateSnapshot) -> ThreadState:
    if _waits(snapshot):
        return "waiting"
    return "unfinished" if snapshot.next else "finished"


def _waits(snapshot: StateSnapshot) -> list[Any]:
    """Return what a run waits for a person to decide."""
    return [one.value for task in snapshot.tasks for one in task.interrupts]
