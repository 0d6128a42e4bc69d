"""The runner: one task through a compiled graph of ours, as events while it runs and as a `Trace` at the end.

`agentflow solve` shows the events, an evaluation keeps the trace. Turns are collected as the graph streams them, so
that a failed run keeps the turns before its failure. Secrets are removed here, so that none is shown, scored or
written.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict

from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.events import EVENT_TYPES
from agentflow.graph.events import Event as ProgressEvent
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.calls import Recorder
from agentflow.graph.run.cost import UNLIMITED, Budget
from agentflow.graph.run.meter import Meter
from agentflow.graph.run.saved_run import SavedRun, config_of
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn
from agentflow.graph.state import InputState, Turn
from agentflow.graph.tracing.observer import Observer
from agentflow.nodes.approval import ApprovalDecision, Proposal
from agentflow.nodes.generator import OUT_OF_TIME
from agentflow.tools.redaction import redacted, redacted_data
from agentflow.tools.sandbox.limits import SandboxError


class Started(BaseModel):
    """Event: a module starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    turn: int
    """Number of the turn, from 1."""
    tool: str = ""
    """Name of the tool that the executor is about to call."""


class Restated(BaseModel):
    """Event: the question refers to an earlier exchange, and is read as one that stands by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str


class Writing(BaseModel):
    """Event: the answer is being written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The answer so far, as a chat shows it."""


@dataclass(frozen=True)
class Finished:
    """The result of a run."""

    trace: Trace
    failure: Exception | None = None
    """The exception that ended the run; None for a limit, and for a run that ended by itself."""


class LimitExceeded(Exception):
    """A run exceeded its time or its budget; `str()` tells which."""


Shown = TypeVar("Shown", bound=BaseModel)
Event = Started | TraceTurn | Restated | Writing
OnEvent = Callable[[Event], Awaitable[None]]
OnProgress = Callable[[ProgressEvent], Awaitable[None]]

Decide = Callable[[Proposal], Awaitable[ApprovalDecision]]
"""Asks a person about a tool call."""


async def ignored(event: Event) -> None:
    """Do nothing with an event."""


async def rollout(
    agent: Agent,
    task: Task,
    context: Context,
    *,
    on_event: OnEvent = ignored,
    seconds: float | None = None,
    budget: Budget = UNLIMITED,
    thread: str = "",
    saved: SavedRun | None = None,
    decide: Decide | None = None,
    on_progress: OnProgress | None = None,
    streams: bool = False,
    attachments: Sequence[Mapping[str, Any]] = (),
    earlier: Sequence[BaseMessage] = (),
) -> Finished:
    """Run `task` and return its trace. Whatever the graph raises becomes a failed trace; only cancellation is raised.

    Args:
        agent: The compiled graph; with a checkpointer if there is a `thread`.
        task: The task whose question is asked.
        context: The settings of the run.
        on_event: Is awaited for each event, the turns of `saved` included.
        seconds: Longest duration of the run.
        budget: Limits of tokens and dollars, checked at each event.
        thread: Name of the thread that checkpoints the run.
        saved: An interrupted run of that thread to continue; `task` and `context` must be its own.
        decide: Decides on each call that waits for approval; without it, the run ends there.
        on_progress: Is awaited for each of the graph's own events, which may hold secrets.
        streams: Whether the answer is reported as it is written, by `Writing`.
        attachments: Images and files of the question, as LangChain's content blocks.
        earlier: Messages before the question, of a conversation that no thread holds.
    """
    start, meter, recorder = time.perf_counter(), Meter(), Recorder()
    run = _Run(task, saved, meter, on_progress, streams=streams, attachments=attachments, earlier=earlier)
    limit, failure = asyncio.timeout(seconds), None

    async def emit(event: Event) -> None:
        await on_event(event)
        if reason := budget.exceeded(meter.usage()):
            raise LimitExceeded(reason)

    try:
        async with limit:
            for turn in run.turns:
                await emit(turn)
            config = config_of(thread, context) if thread else RunnableConfig()
            await run.stream(agent, context, {**config, "callbacks": [Observer(meter, recorder)]}, emit, decide)
    except LimitExceeded as error:
        run.fail(str(error))
    except Exception as error:  # the boundary of a run: whatever a graph or a tool raises is the failure of this run
        if limit.expired():
            run.fail(f"the run took longer than {seconds:g} s")
        else:
            failure = error
            run.fail(reason(error))
    taken = round(time.perf_counter() - start, 3)
    known = {"task": task, "analysis": run.analysis, "turns": run.turns, "usage": meter.usage(), "seconds": taken}
    known["finish_reasons"] = meter.finish_reasons(None)
    trace = _shown(Trace(**known, **run.outcome))
    return Finished(trace.model_copy(update={"calls_made": recorder.calls()}), failure)


class _Run:
    """Turns, analysis and outcome of a run under way."""

    def __init__(
        self,
        task: Task,
        saved: SavedRun | None,
        meter: Meter,
        on_progress: OnProgress | None,
        *,
        streams: bool,
        attachments: Sequence[Mapping[str, Any]],
        earlier: Sequence[BaseMessage],
    ) -> None:
        self._meter, self._on_progress, self._written = meter, on_progress, ""
        self._modes = ["tasks", "updates", *["custom"] * bool(on_progress), *["messages"] * streams]
        self._question = task.question.strip()
        self.turns = [_shown(TraceTurn.of(turn)) for turn in saved.turns] if saved else []
        self.analysis = saved.analysis if saved else ""
        self.outcome: dict[str, Any] = {"status": "running" if saved else "failed"}
        self._waits: Proposal | None = saved.waits if saved else None
        content: Any = [{"type": "text", "text": task.question}, *attachments] if attachments else task.question
        self._input: Any = None if saved else InputState(messages=[*earlier, HumanMessage(content)])

    def fail(self, reason: str) -> None:
        self.outcome = {"status": "failed", "error": reason}

    async def stream(
        self, agent: Agent, context: Context, config: RunnableConfig, emit: OnEvent, decide: Decide | None
    ) -> None:
        """Run the graph to its end, or to a call that waits for approval while there is no `decide`."""
        while True:
            if self._waits and decide:
                self._input = Command(resume=(await decide(self._waits)).model_dump())
            elif self._waits:
                break
            self._waits = None
            async with aclosing(_stream(agent, self._input, config, context, self._modes)) as stream:
                async for mode, chunk in stream:
                    if mode == "custom":
                        await self._progress(chunk)
                    elif mode == "updates":
                        await self._update(chunk, emit)
                    elif mode == "messages":
                        self._written += chunk[0].text
                        await emit(_shown(Writing(text=self._written)))
                    elif "input" in chunk:
                        await emit(_started(chunk, len(self.turns) + 1))
            if not self._waits:
                break
        if self._waits or self.outcome["status"] == "running":
            self.fail("a tool's call waited for approval")
        elif self.outcome.get("answer") == OUT_OF_TIME:
            self.fail(OUT_OF_TIME)

    async def _progress(self, chunk: Any) -> None:
        """Pass on an event of the graph; a tool may write others."""
        if self._on_progress and isinstance(chunk, dict) and chunk.get("type") in EVENT_TYPES:
            await self._on_progress(cast("ProgressEvent", chunk))

    async def _update(self, chunk: dict[str, Any], emit: OnEvent) -> None:
        self._waits = _asked(chunk) or self._waits
        for update in filter(_is_update, chunk.values()):
            for closed in _turns(update):
                ended = {"finish_reasons": self._meter.finish_reasons(closed.turn)}
                self.turns.append(_shown(TraceTurn.of(closed).model_copy(update=ended)))
                await emit(self.turns[-1])
            self.analysis = update.get("analysis") or self.analysis
            if update.get("question", self._question) != self._question:
                await emit(_shown(Restated(question=update["question"])))
            self.outcome |= {
                key: update[key] for key in ("status", "answer") if update.get(key, "running") != "running"
            }


def reason(error: Exception) -> str:
    """Return a failure in one line: a ModelError or SandboxError is written for users, others are named."""
    text = str(error) if isinstance(error, ModelError | SandboxError) else f"{type(error).__name__}: {error}"
    return redacted(" ".join(text.split()))


def _shown(record: Shown) -> Shown:
    """Return `record` without secrets."""
    return type(record).model_validate(redacted_data(record.model_dump()))


def _stream(
    agent: Agent, given: Any, config: RunnableConfig, context: Context, modes: list[Any]
) -> AsyncGenerator[Any]:
    stream: Any = agent.astream(given, config, context=context, stream_mode=modes)
    return stream  # type: ignore[no-any-return]  # an async generator, though it is typed as an iterator


def _asked(chunk: dict[str, Any]) -> Proposal | None:
    """Return the call that waits for approval, if a chunk of updates has one."""
    waiting = chunk.get("__interrupt__") or ()
    return waiting[0].value if waiting else None


def _started(task: dict[str, Any], turn: int) -> Started:
    state = task["input"]
    plan = state.plan if task["name"] == "executor" else None
    return Started(module=task["name"], turn=turn, tool=plan.tool if plan and not plan.error else "")


def _is_update(value: object) -> bool:
    """Return whether a value is the update of a node rather than an interrupt."""
    return isinstance(value, dict)


def _turns(update: dict[str, Any]) -> list[Turn]:
    """Return the turns that a node has added. The first node overwrites the memory with an empty one."""
    memory = update.get("memory")
    return memory if isinstance(memory, list) else []
