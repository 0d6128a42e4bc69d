"""What a client sees of a run while it works: the events of `stream_mode="custom"`, a few to each turn.

    planning -> planned -> tool_called (or approval_needed) -> result -> verdict, turn by turn, then answer

An event is a plain mapping with a `type` and a `turn`, which counts from 1; that of the analysis, before all turns, is
0. It says no more than the state does, and less of it: a tool's output is cut to `MAX_CHARACTERS`. Events are made of
what goes into a node and comes out of it, so that a node that takes the place of ours is seen as ours is.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, TypedDict

from langgraph.config import get_config, get_stream_writer
from langgraph.runtime import Runtime

from agentflow.graph.state import Action, Plan, Signal, State, Status, Verdict
from agentflow.tools.redaction import cut

MAX_CHARACTERS = 1000


class Analysed(TypedDict):
    """The question has been looked at, and turns begin."""

    type: Literal["analysed"]
    turn: int
    question: str
    analysis: str


class Planning(TypedDict):
    """The planner has been asked for the turn's step."""

    type: Literal["planning"]
    turn: int


class Planned(TypedDict):
    """The step; `problem` says why it cannot be carried out, and is empty if it can."""

    type: Literal["planned"]
    turn: int
    sub_goal: str
    tool: str
    context: str
    problem: str


class ApprovalNeeded(TypedDict):
    """A call waits for a person."""

    type: Literal["approval_needed"]
    turn: int
    tool: str
    arguments: dict[str, Any]


class ToolCalled(TypedDict):
    """A tool is at work."""

    type: Literal["tool_called"]
    turn: int
    tool: str
    arguments: dict[str, Any]


class Result(TypedDict):
    """What came back; `error` is a class of error, or None."""

    type: Literal["result"]
    turn: int
    tool: str
    status: str
    error: str | None
    output: str
    seconds: float


class Judged(TypedDict):
    """What the verifier makes of the turn, and whether to go on."""

    type: Literal["verdict"]
    turn: int
    signal: Signal
    analysis: str


class Answered(TypedDict):
    """The end of the run, after `turn` turns."""

    type: Literal["answer"]
    turn: int
    answer: str
    status: Status


Event = Analysed | Planning | Planned | ApprovalNeeded | ToolCalled | Result | Judged | Answered

Node = Callable[[Any, Runtime[Any]], Awaitable[dict[str, Any]]]


async def reported(node: Node, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
    """Runs `node` on `state`, and writes its events to the stream; nobody need read them."""
    name = get_config().get("metadata", {}).get("langgraph_node", "")
    if name == "planner":
        runtime.stream_writer(Planning(type="planning", turn=_turn(state)))
    update = await node(state, runtime)
    for event in _events(name, state, update):
        runtime.stream_writer(event)
    return update


def tool_called(state: State, tool: str, arguments: dict[str, Any]) -> None:
    """Writes that a tool begins its work, from within the node that calls it."""
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
        case "executor", {"proposed": dict() as arguments} if state.plan and not update.get("mark"):
            yield ApprovalNeeded(type="approval_needed", turn=_turn(state), tool=state.plan.tool, arguments=arguments)
        case "verifier", {"verdict": Verdict() as verdict}:
            yield Judged(type="verdict", turn=_turn(state), signal=verdict.signal, analysis=verdict.analysis)
        case "generator", {"answer": str() as answer}:
            yield Answered(type="answer", turn=len(state.memory), answer=answer, status=state.status)


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
