"""The observer: LangChain's callbacks as operations for sinks.

It understands any graph or chain. A run is whatever has no parent, and every `AgentFlow` graph inside another one; a
module is a node of a graph; any other LangChain run inside a node is a step, which sinks do not see. Operations are
keyed by LangChain's run ids, never by order, so that concurrent runs do not mix.

The module of a model call comes from its metadata, the turn from the memory that the node received. The output of a
node tells how its part ended: a failed tool call is a result there, not an exception.
"""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphBubbleUp

from agentflow.graph.models.loading import MODULE
from agentflow.graph.tracing.operation import REFUSALS, Kind, Operation, Sink
from agentflow.tools.coded_error import CodedError
from agentflow.tools.result import ToolFailure

AGENT = "agentflow"
"""Name of the agent's graph in lower case."""

NODE, RETRY = "graph:step:", "retry:attempt:"
"""Tags of LangGraph's nodes and of LangChain's repeated attempts, without their numbers."""

UNNAMED = "LangGraph"
"""Name of a graph that was compiled without one."""

CUT_OFF = "cancelled"
"""Error class of an operation that had not ended when its caller did."""


class Observer(BaseCallbackHandler):
    """Callback handler that passes every operation to its sinks: `config={"callbacks": [Observer(sink)]}`."""

    run_inline = True  # in order, in the caller's own context, and without a thread per call

    def __init__(self, *sinks: Sink, raise_error: bool = False) -> None:
        """Observe for `sinks`; with `raise_error`, an exception of a sink ends the run instead of being logged."""
        self.sinks = sinks
        self.raise_error = raise_error
        self._open: dict[UUID, Operation] = {}
        self._lock = threading.Lock()

    def path(self, run_id: UUID) -> tuple[str, ...] | None:
        """Return the path of an operation under way, by LangChain's run id; None if there is none."""
        operation = self._caller(run_id)
        return operation.path if operation else None

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **known: Any) -> None:
        """Begin a run, a module or a step."""
        name = str(known.get("name") or "chain")
        kind: Kind = "step"
        if _has_tag(known, NODE):
            kind = "module"
        elif self._caller(known.get("parent_run_id")) is None or name.lower() == AGENT:
            kind = "run"
        operation = self._new(kind, name, run_id, known)
        if kind == "module":
            operation.module, operation.turn = name, _turn_of(name, inputs)
        self._begin(operation)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it."""
        if (operation := self._close(run_id)) is None:
            return
        given = outputs if operation.kind == "module" and isinstance(outputs, Mapping) else {}
        result = getattr(given.get("action"), "result", None) if operation.module == "executor" else None
        operation.error = str(getattr(result, "error", None) or "")
        self._end(operation)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it with an error."""
        self._fail(run_id, error)

    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: UUID, **known: Any
    ) -> None:
        """Begin a model call."""
        metadata, params = known.get("metadata") or {}, known.get("invocation_params") or {}
        name = str(params.get("model") or params.get("model_name") or metadata.get("ls_model_name") or "")
        operation = self._new("model_call", name, run_id, known)
        operation.module = str(metadata.get(MODULE) or operation.module or metadata.get("langgraph_node") or "")
        operation.prompt = [message for conversation in messages for message in conversation]
        self._begin(operation)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """End it with its replies."""
        if operation := self._close(run_id):
            found = [one.message for many in response.generations for one in many if isinstance(one, ChatGeneration)]
            operation.replies = [reply for reply in found if isinstance(reply, AIMessage)]
            self._end(operation)

    on_llm_error = on_chain_error

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **known: Any) -> None:
        """Begin a tool call."""
        name = str(known.get("name") or (serialized or {}).get("name") or "tool")
        self._begin(self._new("tool_call", name, run_id, known))

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """End it with its result."""
        if operation := self._close(run_id):
            if getattr(output, "status", "") == "error":
                operation.error = "tool_error"
            self._end(operation)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """End it with an error. A cancelled call ends with its module, which knows why it was cancelled."""
        if not isinstance(error, asyncio.CancelledError):
            self._fail(run_id, error)

    def _new(self, kind: Kind, name: str, id: UUID, known: Mapping[str, Any]) -> Operation:
        """Return an operation, of which LangChain says `known`: its caller, tags and metadata."""
        caller, metadata = self._caller(known.get("parent_run_id")), known.get("metadata") or {}
        operation = Operation(kind, name, id, caller, path=_path(kind, name, caller, metadata))
        if caller is None:
            return operation
        if kind != "run":
            operation.module, operation.turn = caller.module, caller.turn
        # The attempts at a node share the id of its task, which LangGraph's namespace ends in.
        operation.task = str(metadata.get("langgraph_checkpoint_ns")) if _has_tag(known, NODE) else ""
        with self._lock:
            began_before = operation.task in caller.attempts if operation.task else _has_tag(known, RETRY)
            caller.attempts[operation.task] = caller.attempts.get(operation.task, 0) + began_before
            operation.attempt = caller.attempts[operation.task]
        return operation

    def _caller(self, id: UUID | None) -> Operation | None:
        with self._lock:
            return self._open.get(id) if id else None

    def _begin(self, operation: Operation) -> None:
        with self._lock:
            self._open[operation.id] = operation
            if operation.caller:
                operation.caller.parts[operation.id] = operation
        if operation.kind != "step":
            for sink in self.sinks:
                sink.begin(operation)

    def _close(self, id: UUID) -> Operation | None:
        """Return the open operation of that id and forget it."""
        with self._lock:
            operation = self._open.pop(id, None)
            if operation and operation.caller:
                operation.caller.parts.pop(id, None)
            return operation

    def _fail(self, id: UUID, error: BaseException) -> None:
        if operation := self._close(id):
            if not isinstance(error, GraphBubbleUp):  # a pause for a person is no failure
                failed = isinstance(error, ToolFailure)
                operation.error = str(error.error) if failed else type(error).__name__  # type: ignore[attr-defined]
                operation.message = str(error)
                operation.refused = isinstance(error, REFUSALS) and not isinstance(error, CodedError)
            self._end(operation)

    def _end(self, operation: Operation) -> None:
        """End an operation after its parts; a tool call that ran out of time has not ended by itself."""
        for part in list(operation.parts.values()):
            part.error = operation.error or CUT_OFF
            if self._close(part.id):
                self._end(part)
        operation.seconds = time.perf_counter() - operation.clock
        if operation.kind != "step":
            for sink in self.sinks:
                sink.end(operation)


def _has_tag(known: Mapping[str, Any], prefix: str) -> bool:
    return any(tag.startswith(prefix) for tag in known.get("tags") or ())


def _path(kind: Kind, name: str, caller: Operation | None, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes and the named subgraphs around an operation, the outermost first, itself included.

    A subgraph that a tool or a node calls has the name that it was compiled with: `tools/researcher/model`. Without a
    caller, the path is that of LangGraph's namespace: research and planner for `research:ID|planner:ID`.
    """
    if caller is None:
        parts = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
        # A part without an id only numbers the graphs that one node called.
        names = tuple(part.partition(":")[0] for part in parts if ":" in part)
        return names or tuple(filter(None, [str(metadata.get("langgraph_node") or "")]))
    if kind != "module":
        return caller.path
    inner = caller.name not in (UNNAMED, *caller.path[-1:]) and caller.path
    return (*caller.path, caller.name, name) if inner else (*caller.path, name)


def _turn_of(module: str, inputs: object) -> int | None:
    """Return the number of the turn that a node with these inputs belongs to."""
    memory = getattr(inputs, "memory", None)
    if module in ("analyst", "generator") or not isinstance(memory, Sequence):
        return None
    return len(memory) + 1
