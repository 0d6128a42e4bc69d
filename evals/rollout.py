"""One question through the compiled graph, as events while it runs and as an `Trace` at the end.

The command line shows the events, evaluation keeps the trace. Turns are collected as the graph streams them, so that
a run that fails keeps what it had done. Secrets are struck out here, so that none is shown, scored or written.
"""

import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict

from agentflow.evals.saved_run import SavedRun, config_of
from agentflow.evals.task import Task
from agentflow.evals.trace import Tokens, Trace, TraceTurn, Usage
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.loading import MODULE
from agentflow.graph.models.spec import ModelError
from agentflow.graph.state import InputState, Turn
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


class Meter(BaseCallbackHandler):
    """Counts model calls, and the tokens of each module and model."""

    run_inline = True  # no thread per call: there is nothing to wait for

    def __init__(self) -> None:
        self._calls = 0
        self._lock = threading.Lock()  # a tool may call a model from a thread of its own
        self._modules: dict[UUID, str] = {}
        self._tokens: dict[str, dict[str, Tokens]] = {}
        self._begun: dict[UUID, float] = {}
        self._seconds: dict[str, float] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Called by LangChain at the start of every call, also of the tools' model."""
        known = metadata or {}
        with self._lock:
            self._modules[run_id] = str(known.get(MODULE) or known.get("langgraph_node") or "")
            self._calls += 1
            self._begun[run_id] = time.perf_counter()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Called at the end of every call that did not fail."""
        replies = [
            one.message for several in response.generations for one in several if isinstance(one, ChatGeneration)
        ]
        with self._lock:
            models = self._tokens.setdefault(self._ended(run_id), {})
            for reply in replies:
                if isinstance(reply, AIMessage) and reply.usage_metadata:
                    name = str(reply.response_metadata.get("model_name", ""))
                    models[name] = models.get(name, Tokens()) + _tokens(reply)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Called at the end of one that did."""
        with self._lock:
            self._ended(run_id)

    def usage(self) -> Usage:
        """What was counted so far."""
        with self._lock:
            modules = {module: dict(models) for module, models in self._tokens.items() if models}
            seconds = {module: round(taken, 3) for module, taken in self._seconds.items()}
            return Usage(calls=self._calls, modules=modules, seconds=seconds)

    def _ended(self, run_id: UUID) -> str:
        """The module of a call that has ended, whose time it adds."""
        module = self._modules.pop(run_id, "")
        if run_id in self._begun:
            self._seconds[module] = self._seconds.get(module, 0.0) + time.perf_counter() - self._begun.pop(run_id)
        return module


def _tokens(message: AIMessage) -> Tokens:
    """What a reply took; its cost where the server reports one beside the tokens, as routers between providers do."""
    reported = message.response_metadata.get("token_usage")
    cost = reported.get("cost") if isinstance(reported, dict) else None
    known = cost if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < inf else None
    return Tokens.model_validate({**dict(message.usage_metadata or {}), "calls": 1, "cost": known})


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
            waits, stream = None, _stream(agent, given, {**config, "callbacks": [meter]}, context)
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
