"""The runner: the one place that plays a graph, ours or anybody's.

`run` awaits a callback for each event while the graph runs, and returns a `Trace`. `agentflow solve` shows the events,
an evaluation adds a score to the trace, a training the calls with their tokens and an advantage. Whatever ends a run
early is decided here: a limit of time or budget, an interrupt that nobody answers, an exception of the graph. Turns are
collected as the graph streams them, so that a failed run keeps the turns before its failure. Secrets are removed here,
so that none is shown, scored or written.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar, TypeVar, cast, get_args
from weakref import WeakSet

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables.config import RunnableConfig, merge_configs, set_config_context, var_child_runnable_config
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt
from pydantic import BaseModel

from agentflow.graph.run.cost import UNLIMITED, Budget
from agentflow.graph.run.failure import Blame
from agentflow.graph.run.meter import Meter
from agentflow.graph.run.recorder import Recorder
from agentflow.graph.run.run_events import Event, OnEvent, Restated, Started, Writing
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceStatus, TraceTurn
from agentflow.graph.state import InputState, State, Turn
from agentflow.graph.threads import SavedThread
from agentflow.graph.tracing.observer import Observer
from agentflow.nodes.generator import OUT_OF_TIME
from agentflow.tools.coded_error import Cause, CodedError
from agentflow.tools.langchain_tracing import redact_langchain_tracing
from agentflow.tools.redaction import redacted_data

Graph = CompiledStateGraph[Any, Any, Any, Any]

Decide = Callable[[Any], Awaitable[Any]]
"""Answers an interrupt by its value, such as a tool call's `Proposal`, with what the node gets."""

Shown = TypeVar("Shown", bound=BaseModel)

MOST_THREADS = 4096
"""Threads of a loop's default executor, made as they are needed. A node, model or tool that is a plain function holds
one while it waits. Asyncio's own executor has 4 more than there are CPUs; others would wait until their time is up."""
_roomy: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class LimitExceeded(CodedError):
    """A run exceeds its time or its budget; `str()` tells which."""

    cause: ClassVar[Cause] = "limit"


class Unanswered(CodedError):
    """A run waits for a person, and nobody is asked."""

    cause: ClassVar[Cause] = "person"


async def run(
    graph: Graph,
    task: Task,
    context: Any = None,
    *,
    inputs: Any = None,
    config: RunnableConfig | None = None,
    observer: Observer | None = None,
    texts: bool = True,
    on_event: OnEvent | None = None,
    streams: bool = False,
    seconds: float | None = None,
    budget: Budget = UNLIMITED,
    saved: SavedThread | None = None,
    decide: Decide | None = None,
    call: Callable[[], Awaitable[Any]] | None = None,
) -> Trace:
    """Run `task` and return its trace. Whatever the graph raises becomes a failed trace; only cancellation is raised.

    Within a node of another graph, an interrupt is raised too, since it pauses that graph.

    Args:
        graph: The compiled graph; with a checkpointer if `config` names a thread.
        task: The task whose question is asked.
        context: The settings of the run.
        inputs: The graph's input; by default, the question as a message (`asking`).
        config: LangChain's config of the run, such as `threads.config_of` makes for a thread.
        observer: Observes the run for further sinks.
        texts: Whether the calls of the trace hold prompts and replies.
        on_event: Is awaited for each event, the turns of `saved` included.
        streams: Whether the answer is reported as it is written, by `Writing`.
        seconds: Longest duration of the run.
        budget: Limits of tokens and dollars, checked when a node has ended.
        saved: An interrupted run of the thread to continue; `task` and `context` must be its own.
        decide: Answers each interrupt; without it, the run ends there.
        call: Calls the graph and returns its final state, if the runner is not to call it; it runs in `config`.
    """
    redact_langchain_tracing()
    if (loop := asyncio.get_running_loop()) not in _roomy:
        _roomy.add(loop)
        loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="agentflow"))
    start, meter, recorder, observer = time.perf_counter(), Meter(), Recorder(texts=texts), observer or Observer()
    blame = Blame()
    observer.sinks = (blame, *observer.sinks, meter, recorder)
    progress, failure = _Progress(graph, task, saved, meter), None

    async def emit(events: Iterable[Event]) -> None:
        for event in events:
            if on_event:
                await on_event(event)

    async def play() -> None:
        await emit(progress.turns)
        if call:
            with set_config_context(_nested(config, observer)) as around:
                progress.state = await asyncio.create_task(_awaited(call), context=around)
            return
        given = None if saved else asking(task.question) if inputs is None else inputs
        waits, nodes = [Interrupt(saved.waits)] if saved and saved.waits else None, list[str]()
        modes = ["values", "updates", "tasks", *["messages"] * streams]
        while True:
            if waits is not None:
                if not decide:
                    stops = nodes or graph.interrupt_before_nodes or graph.interrupt_after_nodes
                    raise Unanswered(f"the run waits for a person in {', '.join(stops)}; in training, answer= replies")
                given, waits = await _resumed(waits, decide), None
            async with aclosing(_parts(graph, given, _nested(config, observer), context, modes)) as parts:
                async for mode, part in parts:
                    if mode == "updates" and "__interrupt__" in part:
                        waits = [*(waits or ()), *part["__interrupt__"]]
                    elif mode == "tasks" and part.get("interrupts"):
                        nodes.append(part["name"])
                    if on_event or mode != "tasks":
                        await emit(progress.events(mode, part))
                    if mode == "updates" and (reason := budget.exceeded(meter.usage())):
                        raise LimitExceeded(reason)
            if waits is None:
                break
        if progress.unanswered:
            raise LimitExceeded(OUT_OF_TIME)

    try:
        async with within(seconds, start):
            await play()
    except Exception as error:  # the boundary of a run: whatever a graph or a tool raises is the failure of this run
        if isinstance(error, GraphBubbleUp) and var_child_runnable_config.get() is not None:
            raise
        failure = error
    trace = progress.trace(failed=failure is not None)
    reasons = meter.finish_reasons(lambda turn: turn is None or turn > len(trace.turns))
    measured = {"usage": meter.usage(), "finish_reasons": reasons, "calls_made": recorder.calls()}
    trace = trace.model_copy(update={**measured, "seconds": round(time.perf_counter() - start, 3)})
    return trace.failed_by(failure, blame.cause_of(failure)) if failure else trace.ended_in(progress.state)


def asking(question: str, attachments: Sequence[Mapping[str, Any]] = (), earlier: Sequence[BaseMessage] = ()) -> Any:
    """Return the input that asks a question, with its images and files as LangChain's content blocks.

    `earlier` are the messages before it, of a conversation that no thread holds.
    """
    content: Any = [{"type": "text", "text": question}, *attachments] if attachments else question
    return InputState(messages=[*earlier, HumanMessage(content)])


@asynccontextmanager
async def within(seconds: float | None, start: float) -> AsyncIterator[None]:
    """Raise LimitExceeded in the block when `seconds` have passed since `start`, a reading of `time.perf_counter`."""
    limit = asyncio.timeout(None if seconds is None else start + seconds - time.perf_counter())
    try:
        async with limit:
            yield
    except Exception as error:
        if limit.expired():
            raise LimitExceeded(f"the run took longer than {seconds:g} s") from error
        raise


def final_text(state: Any) -> str:
    """Return the answer in a graph's final state: its field `answer`, else its last message, else all of it."""
    if isinstance(state, dict):
        if isinstance(answer := state.get("answer"), str):
            return answer
        messages = state.get("messages")
        if isinstance(messages, list) and messages and isinstance(messages[-1], BaseMessage):
            return str(messages[-1].text)
    return str(state)


class _Progress:
    """State of a run under way, and the turns in the memory of our own agents."""

    def __init__(self, graph: Graph, task: Task, saved: SavedThread | None, meter: Meter) -> None:
        schema = getattr(getattr(graph, "builder", None), "state_schema", None)
        self._ours = isinstance(schema, type) and issubclass(schema, State)
        self._task, self._meter, self._written = task, meter, ""
        self._question, self._analysis = task.question.strip(), saved.analysis if saved else ""
        self.state: Any = None
        self.turns = [_shown(TraceTurn.of(turn)) for turn in saved.turns] if saved else []

    @property
    def answer(self) -> str:
        """The answer in the state."""
        return final_text(self.state) if self.state is not None else ""

    @property
    def unanswered(self) -> bool:
        """True if an agent of ours was out of time before it had an answer."""
        late = self._ours and self.state is not None and self.state.get("status") == "out_of_time"
        return late and self.answer in ("", OUT_OF_TIME)

    def events(self, mode: str, part: Any) -> Iterator[Event]:
        """Take a part of the graph's stream and yield the events in it."""
        match mode:
            case "values":
                self.state = part
            case "updates" if self._ours:
                for update in part.values():
                    if isinstance(update, dict):
                        yield from self._update(update)
            case "messages":
                self._written += part[0].text
                yield _shown(Writing(text=self._written))
            case "tasks" if "input" in part:
                yield _started(part, len(self.turns) + 1)

    def trace(self, *, failed: bool) -> Trace:
        """Return the trace so far, without secrets. A graph that is not ours has answered with its final state."""
        known = {"task": self._task, "analysis": self._analysis, "turns": self.turns}
        status = self.state.get("status") if self._ours and self.state else ""
        known["status"] = status if status in get_args(TraceStatus) else "answered"
        if self._ours and self.state and not failed:
            known["confidence"] = self.state.get("confidence")
        return _shown(Trace(**known, answer="" if failed else self.answer))

    def _update(self, update: dict[str, Any]) -> Iterator[Event]:
        memory = update.get("memory")  # the first node overwrites it with an empty one, which is no list
        for turn in memory if isinstance(memory, list) else ():
            yield self._turn(turn)
        if update.get("question", self._question) != self._question:
            yield _shown(Restated(question=update["question"]))
        self._analysis = update.get("analysis") or self._analysis

    def _turn(self, turn: Turn) -> TraceTurn:
        ended = {"finish_reasons": self._meter.finish_reasons(lambda number: number == turn.turn)}
        self.turns.append(_shown(TraceTurn.of(turn).model_copy(update=ended)))
        return self.turns[-1]


def _nested(config: RunnableConfig | None, observer: Observer) -> RunnableConfig:
    """Return the config with the observer beside the callbacks of the run around this one, if there is one."""
    around = (var_child_runnable_config.get() or {}).get("callbacks")
    return merge_configs({"callbacks": around}, config, {"callbacks": [observer]})


def _parts(
    graph: Graph, given: Any, config: RunnableConfig, context: Any, modes: Any
) -> AsyncGenerator[tuple[str, Any]]:
    # As `ainvoke` does, so that the last values are the graph's output.
    output: Any = {"output_keys": graph.output_channels}
    return cast("AsyncGenerator[Any]", graph.astream(given, config, context=context, stream_mode=modes, **output))


async def _awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    state = await call()
    if isinstance(state, dict) and "__interrupt__" in state:
        raise Unanswered("the graph waits for a person, and its caller has not resumed it")
    return state


async def _resumed(waits: Sequence[Interrupt[Any]], decide: Decide) -> Any:
    """Return the input that continues a run; None where it stops before or after a node, without a question."""
    answers = {one.id: await decide(one.value) for one in waits}
    return Command(resume=answers if len(answers) > 1 else answers[waits[0].id]) if waits else None


def _shown(record: Shown) -> Shown:
    """Return `record` without secrets."""
    return type(record).model_validate(redacted_data(record.model_dump()))


def _started(task: dict[str, Any], turn: int) -> Started:
    plan = getattr(task["input"], "plan", None) if task["name"] == "executor" else None
    return Started(module=task["name"], turn=turn, tool=plan.tool if plan and not plan.error else "")
