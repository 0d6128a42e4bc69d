"""From LangChain's callbacks to operations.

Any graph or chain is understood. A run is whatever has no parent, and every `AgentFlow` graph inside another one; a
module is a node of a graph; the steps inside a node are nobody's business. Everything is keyed by LangChain's run ids,
never by order, so that runs at the same time do not mix.

The module of a call is known from its metadata, the turn from the memory that the node was given. What a node returns
says how its part ended: a tool call that failed is a result there, not an exception.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphBubbleUp

from agentflow.graph.models.loading import MODULE
from agentflow.graph.state import Turn
from agentflow.graph.tracing.facts import input_messages, output_messages, reply_facts, request_facts
from agentflow.graph.tracing.operation import Operation, Sink
from agentflow.tools.result import ToolFailure

AGENT = "agentflow"
"""The name of the agent's graph, in small letters."""

CUT_OFF = "cancelled"
"""Error class of an operation that its parent did not wait for."""


class Observer(BaseCallbackHandler):
    """Tells its sinks of every operation."""

    run_inline = True  # in order, in the caller's own context, and without a thread per call

    def __init__(self) -> None:
        self.sinks: tuple[Sink, ...] = ()
        self._around: dict[UUID, Operation] = {}
        """By the id of a LangChain run under way: the operation that it is, or that it is part of."""
        self._lock = threading.Lock()

    @property
    def _idle(self) -> bool:
        return not self.sinks

    ignore_llm = ignore_chain = ignore_agent = ignore_chat_model = _idle

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A graph, a node, or a step of one."""
        known, name = metadata or {}, str(kwargs.get("name") or "chain")
        parent = self._parent(parent_run_id)
        if any(tag.startswith("graph:step:") for tag in tags or ()):
            operation = self._new("module", name, run_id, parent, known)
            operation.module, operation.turn = name, _turn_of(name, inputs)
            if name == "planner":
                operation.run.turn_began = operation.started
        elif parent is None or name.lower() == AGENT:
            operation = self._new("run", name, run_id, parent, known)
        else:
            with self._lock:
                self._around[run_id] = parent
                parent.steps.add(run_id)
            return
        self._begin(operation)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It returned."""
        if (operation := self._close(run_id)) is None:
            return
        given = outputs if operation.kind == "module" and isinstance(outputs, Mapping) else {}
        result = getattr(given.get("action"), "result", None) if operation.module == "executor" else None
        operation.error = str(getattr(result, "error", None) or "")
        if isinstance(status := given.get("status"), str):
            operation.run.facts["agentflow.status"] = status
        self._end(operation)
        memory = given.get("memory")
        for turn in memory if isinstance(memory, list) else ():
            self._end_turn(operation, turn)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It raised."""
        self._fail(run_id, error)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model is asked."""
        known = metadata or {}
        facts = request_facts(known, kwargs.get("invocation_params") or {})
        name = str(facts.get("gen_ai.request.model", ""))
        operation = self._new("model_call", name, run_id, self._parent(parent_run_id), known)
        operation.module = str(known.get(MODULE) or operation.module)
        operation.facts = facts
        operation.content["gen_ai.input.messages"] = lambda: input_messages(messages)
        self._begin(operation)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """It replied."""
        if operation := self._close(run_id):
            replies = [one.message for many in response.generations for one in many if isinstance(one, ChatGeneration)]
            told = [reply for reply in replies if isinstance(reply, AIMessage)]
            operation.facts |= reply_facts(told)
            operation.content["gen_ai.output.messages"] = lambda: output_messages(told)
            self._end(operation)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It did not."""
        self._fail(run_id, error)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is called."""
        name = str(kwargs.get("name") or (serialized or {}).get("name") or "tool")
        operation = self._new("tool_call", name, run_id, self._parent(parent_run_id), metadata or {})
        operation.facts["gen_ai.tool.name"] = name
        if call := kwargs.get("tool_call_id"):
            operation.facts["gen_ai.tool.call.id"] = str(call)
        operation.content["gen_ai.tool.call.arguments"] = lambda: inputs or input_str
        self._begin(operation)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It returned."""
        if operation := self._close(run_id):
            operation.content["gen_ai.tool.call.result"] = lambda: getattr(output, "content", str(output))
            if getattr(output, "status", "") == "error":
                operation.error = "tool_error"
            self._end(operation)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It raised."""
        self._fail(run_id, error)

    def _new(self, kind: Any, name: str, id: UUID, parent: Operation | None, metadata: Mapping[str, Any]) -> Operation:
        operation = Operation(kind, name, id, time.time(), parent)
        operation.thread = str(metadata.get("thread_id") or (parent.thread if parent else ""))
        operation.traceparent = str(metadata.get("traceparent", "")) if parent is None else ""
        if parent and kind != "run":
            operation.module, operation.turn = parent.module, parent.turn
        return operation

    def _parent(self, id: UUID | None) -> Operation | None:
        with self._lock:
            return self._around.get(id) if id else None

    def _begin(self, operation: Operation) -> None:
        with self._lock:
            self._around[operation.id] = operation
            if operation.parent:
                operation.parent.parts[operation.id] = operation
        for sink in self.sinks:
            sink.begin(operation)

    def _close(self, id: UUID) -> Operation | None:
        """The operation of that id, which is no longer under way; None if it is a step that is none."""
        with self._lock:
            operation = self._around.pop(id, None)
            if operation is None:
                return None
            if operation.id != id:
                operation.steps.discard(id)
                return None
            if operation.parent:
                operation.parent.parts.pop(id, None)
            return operation

    def _fail(self, id: UUID, error: BaseException) -> None:
        if operation := self._close(id):
            if not isinstance(error, GraphBubbleUp):  # a pause for a person is no failure
                failed = isinstance(error, ToolFailure)
                operation.error = str(error.error) if failed else type(error).__name__  # type: ignore[attr-defined]
                operation.message = str(error)
            self._end(operation)

    def _end(self, operation: Operation) -> None:
        """Ends it, and first whatever it has left behind: a tool that ran out of time says nothing."""
        for part in list(operation.parts.values()):
            part.error = operation.error or CUT_OFF
            if self._close(part.id):
                self._end(part)
        with self._lock:
            for step in operation.steps:
                self._around.pop(step, None)
        self._tell_end(operation)

    def _tell_end(self, operation: Operation) -> None:
        operation.ended = time.time()
        for sink in self.sinks:
            sink.end(operation)

    def _end_turn(self, closed_by: Operation, turn: object) -> None:
        if not isinstance(turn, Turn):
            return
        run = closed_by.run
        result = turn.action.result
        began = run.turn_began or run.started
        operation = Operation("turn", "", uuid4(), began, run, thread=run.thread, turn=turn.turn)
        operation.error = str(result.error or "")
        operation.facts = {"gen_ai.tool.name": turn.plan.tool, "agentflow.signal": turn.verdict.signal}
        self._tell_end(operation)


def _turn_of(module: str, inputs: object) -> int | None:
    """The number of the turn that a node with this input is part of."""
    memory = getattr(inputs, "memory", None)
    if module in ("analyst", "generator") or not isinstance(memory, Sequence):
        return None
    return len(memory) + 1
