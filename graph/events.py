"""Progress events of a run for clients, streamed with `stream_mode="custom"`: a few per turn.

    planning -> planned -> tool_called (or approval_needed) -> result -> verdict, turn by turn, then answer

An event is a plain mapping with a `type` and a `turn`, which counts from 1. The analysis precedes all turns and has
turn 0. An event has no data beyond the state's, and a tool's output is cut to `MAX_CHARACTERS`. Events are derived from
a node's input and output, so custom nodes report the same events as built-in ones.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, TypedDict, get_args, get_type_hints

from langgraph.config import get_config, get_stream_writer
from langgraph.runtime import Runtime

from agentflow.graph.state import Action, PendingCall, Plan, Signal, State, Status, Verdict
from agentflow.tools.redaction import cut

MAX_CHARACTERS = 1000


class Analysed(TypedDict):
    """The question was analysed, and turns begin."""

    type: Literal["analysed"]
    turn: int
    question: str
    analysis: str


class Planning(TypedDict):
    """The planner was asked for the turn's step."""

    type: Literal["planning"]
    turn: int


class Planned(TypedDict):
    """The planned step. `problem` is why it cannot be executed, or empty."""

    type: Literal["planned"]
    turn: int
    sub_goal: str
    tool: str
    context: str
    problem: str


class ApprovalNeeded(TypedDict):
    """A call waits for a person's approval."""

    type: Literal["approval_needed"]
    turn: int
    tool: str
    arguments: dict[str, Any]


class ToolCalled(TypedDict):
    """A tool call started."""

    type: Literal["tool_called"]
    turn: int
    tool: str
    arguments: dict[str, Any]


class Result(TypedDict):
    """The result of a tool call; `error` is an error class, or None."""

    type: Literal["result"]
    turn: int
    tool: str
    status: str
    error: str | None
    output: str
    seconds: float


class Judged(TypedDict):
    """The verifier's analysis of the turn, and whether to continue."""

    type: Literal["verdict"]
    turn: int
    signal: Signal
    analysis: str


class Answered(TypedDict):
    """The run ended after `turn` turns."""

    type: Literal["answer"]
    turn: int
    answer: str
    confidence: float | None
    status: Status


Event = Analysed | Planning | Planned | ApprovalNeeded | ToolCalled | Result | Judged | Answered

EVENT_TYPES = frozenset(name for event in get_args(Event) for name in get_args(get_type_hints(event)["type"]))
"""The values of `type`, by which clients tell these events from those that a tool writes."""

Node = Callable[[Any, Runtime[Any]], Awaitable[dict[str, Any]]]


async def reported(node: Node, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
    """Run `node` on `state` and write its events to the stream, whether or not it is read."""
    name = get_config().get("metadata", {}).get("langgraph_node", "")
    if name == "planner":
        runtime.stream_writer(Planning(type="planning", turn=_turn(state)))
    update = await node(state, runtime)
    for event in _events(name, state, update):
        runtime.stream_writer(event)
    return update


def tool_called(state: State, tool: str, arguments: dict[str, Any]) -> None:
    """Write the event for the start of a tool call, from within the node that makes it."""
    get_stream_writer()(ToolCalled(type="tool_called", turn=_turn(state), tool=tool, arguments=arguments))


def _turn(state: State) -> int:
    return len(state.memory) + 1


def _events(name: str, state: Any, update: dict[str, Any]) -> Iterator[Event]:
    match name, update:
        case "analyst", {"question": str() as question, "analysis": str() as analysis}:
            yield Analysed(type="analysed", turn=0, question=question, analysis=analysis)
        case "planner", {"plan": Plan() as plan}:
            yield _planned(state, plan)
        case "executor", {"action": Action() as action}:
            yield _result(state, action)
        case "executor", {"pending_call": PendingCall(mark="") as call}:
            tool, turn = call.plan.tool, _turn(state)
            yield ApprovalNeeded(type="approval_needed", turn=turn, tool=tool, arguments=call.arguments)
        case "verifier", {"verdict": Verdict() as verdict}:
            yield Judged(type="verdict", turn=_turn(state), signal=verdict.signal, analysis=verdict.analysis)
        case "generator", {"answer": str() as answer}:
            status, confidence = update.get("status", state.status), update.get("confidence")
            yield Answered(type="answer", turn=len(state.memory), answer=answer, confidence=confidence, status=status)


def _planned(state: State, plan: Plan) -> Planned:
    return Planned(
        type="planned",
        turn=_turn(state),
        sub_goal=plan.sub_goal,
        tool=plan.tool,
        context=plan.context,
        problem=plan.problem,
    )


def _result(state: State, action: Action) -> Result:
    found = action.result
    return Result(
        type="result",
        turn=_turn(state),
        tool=state.plan.tool if state.plan else "",
        status=found.status,
        error=found.error.value if found.error else None,
        output=cut(found.output, MAX_CHARACTERS, ""),
        seconds=found.seconds,
    )
