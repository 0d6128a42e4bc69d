"""Progress events of a run for clients, streamed with `stream_mode="custom"`: a few per turn.

    planning -> planned -> tool_called (or approval_needed) -> result -> verdict, turn by turn, then answer

An event is a plain mapping with a `type`, a `turn`, which counts from 1, and the fields of its type (`FIELDS`). The
analysis precedes all turns and has turn 0. An event has no data beyond the state's, and a tool's output is cut to
`MAX_CHARACTERS`. Events are derived from a node's input and output, so custom nodes report the same events as built-in
ones.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from langgraph.config import get_config, get_stream_writer
from langgraph.runtime import Runtime

from agentflow.graph.state import Action, PendingCall, Plan, State, Verdict
from agentflow.tools.redaction import cut

MAX_CHARACTERS = 1000

FIELDS = {
    "analysed": ("question", "analysis"),
    "planning": (),
    "planned": ("sub_goal", "tool", "context", "problem"),  # why the step cannot be executed, or empty
    "approval_needed": ("tool", "arguments"),
    "tool_called": ("tool", "arguments"),
    "result": ("tool", "status", "error", "output", "seconds"),  # the error class, or None
    "verdict": ("signal", "analysis"),
    "answer": ("answer", "confidence", "status"),  # `turn` is the number of turns
}
"""Fields by type, in the order of a turn. By the types, clients tell these events from those that a tool writes."""

Node = Callable[[Any, Runtime[Any]], Awaitable[dict[str, Any]]]


async def reported(node: Node, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
    """Run `node` on `state` and write its events to the stream, whether or not it is read."""
    name = get_config().get("metadata", {}).get("langgraph_node", "")
    if name == "planner":
        runtime.stream_writer(_event("planning", _turn(state)))
    update = await node(state, runtime)
    for event in _events(name, state, update):
        runtime.stream_writer(event)
    return update


def tool_called(state: State, tool: str, arguments: dict[str, Any]) -> None:
    """Write the event for the start of a tool call, from within the node that makes it."""
    get_stream_writer()(_event("tool_called", _turn(state), tool, arguments))


def _turn(state: State) -> int:
    return len(state.memory) + 1


def _event(kind: str, turn: int, *values: Any) -> dict[str, Any]:
    return {"type": kind, "turn": turn, **dict(zip(FIELDS[kind], values, strict=True))}


def _events(name: str, state: Any, update: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match name, update:
        case "analyst", {"question": str() as question, "analysis": str() as analysis}:
            yield _event("analysed", 0, question, analysis)
        case "planner", {"plan": Plan() as plan}:
            yield _event("planned", _turn(state), plan.sub_goal, plan.tool, plan.context, plan.problem)
        case "executor", {"action": Action(result=found)}:
            tool, error = state.plan.tool if state.plan else "", found.error.value if found.error else None
            output = cut(found.output, MAX_CHARACTERS, "")
            yield _event("result", _turn(state), tool, found.status, error, output, found.seconds)
        case "executor", {"pending_call": PendingCall(mark="") as call}:
            yield _event("approval_needed", _turn(state), call.plan.tool, call.arguments)
        case "verifier", {"verdict": Verdict() as verdict}:
            yield _event("verdict", _turn(state), verdict.signal, verdict.analysis)
        case "generator", {"answer": str() as answer}:
            status, confidence = update.get("status", state.status), update.get("confidence")
            yield _event("answer", len(state.memory), answer, confidence, status)
