"""One question through the compiled graph, as events while it runs and as an `Trace` at the end.

The command line shows the events, evaluation keeps the trace. Turns are collected as the graph streams them, so that
a run that fails keeps what it had done. Secrets are struck out here, so that none is shown, scored or written.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict

from agentflow.evals.meter import Meter
from agentflow.evals.saved_run import SavedRun, config_of
from agentflow.evals.task import Task
from agentflow.evals.trace import Trace, TraceTurn
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import InputState, Turn
from agentflow.graph.tracing.observer import Observer
from agentflow.nodes.approval import Decision, Proposal
from agentflow.tools.redaction import redacted_data
from agentflow.tools.sandbox.limits import SandboxError


class Started(BaseModel):
    """A module starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    turn: int
    """Number of the turn, from 1."""
    tool: str = ""
    """The tool that the executor is about to call."""


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    trace: Trace
    failure: ModelError | SandboxError | None = None
    """Why there is no answer, if the run failed."""


Shown = TypeVar("Shown", bound=BaseModel)
Event = Started | TraceTurn | Finished

Decide = Callable[[Proposal], Awaitable[Decision]]
"""Asks a person about a call."""


async def rollout(
    agent: Agent,
    task: Task,
    context: Context,
    meter: Meter | None = None,
    *,
    thread: str = "",
    kept: SavedRun | None = None,
    decide: Decide | None = None,
) -> AsyncGenerator[Event, None]:
    """Runs `task`; the last event is `Finished`, also when a model or the sandbox fails. What is raised is a bug.

    Args:
        agent: The compiled graph; with a checkpointer for the arguments after `meter`.
        task: What is asked.
        context: The run's settings.
        meter: Counts the model calls, for a caller that wants to know of them also when the run is cut short.
        thread: Where the run is kept.
        kept: A run of that thread which broke off, to be gone on with; `task` and `context` are its own then.
        decide: Is asked about each call that waits for approval; without it, the run ends there.
    """
    start, meter = time.perf_counter(), meter or Meter()
    turns = [_shown(TraceTurn.of(turn)) for turn in kept.turns] if kept else []
    for turn in turns:
        yield turn
    analysis = kept.analysis if kept else ""
    outcome: dict[str, Any] = {"status": "running" if kept else "failed"}
    failure: ModelError | SandboxError | None = None
    config = config_of(thread, context) if thread else RunnableConfig()
    waits: Proposal | None = kept.waits if kept else None
    given: Any = (
        InputState(messages=[HumanMessage(task.question)]) if kept is None else None
    )  # None: from where it stands
    try:
        while True:
            if waits and decide:
                given = Command(resume=(await decide(waits)).model_dump())
            elif waits:
                break
            waits, stream = None, _stream(agent, given, {**config, "callbacks": [Observer(meter)]}, context)
            async for mode, chunk in stream:
                if mode == "tasks":
                    if "input" in chunk:
                        yield _started(chunk, len(turns) + 1)
                    continue
                waits = _asked(chunk) or waits
                for update in filter(_is_update, chunk.values()):
                    for closed in _turns(update):
                        turns.append(_shown(TraceTurn.of(closed)))
                        yield turns[-1]
                    analysis = update.get("analysis") or analysis
                    outcome.update(
                        {key: update[key] for key in ("status", "answer") if update.get(key, "running") != "running"}
                    )
            if not waits:
                break
    except (ModelError, SandboxError) as error:
        failure, outcome = error, {"status": "failed", "error": str(error)}
    if waits or outcome["status"] == "running":  # a call waits for a person, and nobody is there
        outcome = {"status": "failed", "error": "a tool's call waited for approval"}
    seconds = round(time.perf_counter() - start, 3)
    known = {"task": task, "analysis": analysis, "turns": turns, "usage": meter.usage(), "seconds": seconds}
    yield Finished(_shown(Trace(**known, **outcome)), failure)


def _shown(record: Shown) -> Shown:
    """`record` as it may be shown and written."""
    return type(record).model_validate(redacted_data(record.model_dump()))


def _stream(agent: Agent, given: Any, config: RunnableConfig, context: Context) -> AsyncIterator[Any]:
    return agent.astream(given, config, context=context, stream_mode=["tasks", "updates"])


def _asked(chunk: dict[str, Any]) -> Proposal | None:
    """The call that waits for a person, where a chunk of updates says so."""
    waiting = chunk.get("__interrupt__") or ()
    return waiting[0].value if waiting else None


def _started(task: dict[str, Any], turn: int) -> Started:
    state = task["input"]
    plan = state.plan if task["name"] == "executor" else None
    return Started(module=task["name"], turn=turn, tool=plan.tool if plan and not plan.error else "")


def _is_update(value: object) -> bool:
    """Whether it is what a node returned, rather than an interrupt."""
    return isinstance(value, dict)


def _turns(update: dict[str, Any]) -> list[Turn]:
    """The rounds that a node has closed; a run begins by emptying the memory, which is none."""
    memory = update.get("memory")
    return memory if isinstance(memory, list) else []
