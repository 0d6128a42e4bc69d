"""The last run of a thread, with the settings that are needed to resume it.

The settings of a run are not part of the graph's state. They are stored in the metadata of its checkpoints, so that a
resumed run has the same models and tools.
"""

from dataclasses import dataclass

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from pydantic import ValidationError

from agentflow.graph import threads
from agentflow.graph.agent import Agent
from agentflow.graph.checkpoints import CheckpointError
from agentflow.graph.context import Context
from agentflow.graph.conversation import asked, exchanged
from agentflow.graph.state import State, Turn
from agentflow.graph.threads import ThreadState
from agentflow.nodes.approval import Proposal
from agentflow.nodes.attachments import texts

CONTEXT = "agentflow_context"
"""Key in a checkpoint's metadata for the settings of its run, as JSON without defaults."""


@dataclass(frozen=True)
class SavedThread:
    """A thread with its last run."""

    state: ThreadState
    earlier: list[BaseMessage]
    """What was said before the last question."""
    question: str
    analysis: str
    answer: str
    turns: list[Turn]
    context: Context
    waits: Proposal | None
    """The tool call that waits for approval by a person."""


def config_of(thread: str, context: Context) -> RunnableConfig:
    """Return the config with which a checkpointed run is invoked."""
    settings = context.model_dump_json(exclude_defaults=True)
    return {**threads.config_of(thread), "metadata": {CONTEXT: settings}}


async def saved_thread(agent: Agent, thread: str) -> SavedThread | None:
    """Return the last run of a thread, None if there is none.

    Raises CheckpointError if another version or another graph wrote it.
    """
    snapshot = await agent.aget_state(threads.config_of(thread))
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
        state=threads.state_of(snapshot),
        earlier=said[: said.index(last)] if last else [],
        question=state.question,
        analysis=state.analysis,
        answer=state.answer,
        turns=state.memory,
        context=context,
        waits=_waits(snapshot),
    )


def _waits(snapshot: StateSnapshot) -> Proposal | None:
    asked = [one.value for task in snapshot.tasks for one in task.interrupts]
    return asked[0] if asked else None
