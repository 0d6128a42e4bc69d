"""One trace in full, with the conversation that its planner read.

The planner's own code renders the messages: its prompt in turn t is the instructions and the first 2 t - 1 messages.
"""

from typing import Any

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from agentflow.evals.record import Record
from agentflow.evals.trace import Trace, TraceTurn
from agentflow.graph.state import Action, Plan, Turn
from agentflow.nodes.planner import messages
from agentflow.rl.rollout import RolloutRecord
from agentflow.view.live_status import Running
from agentflow.view.query import cells
from agentflow.view.rows import Row
from agentflow.view.sources import Evaluation, Source, Training


class Gone(Exception):
    """The file was rewritten, and the line no longer exists."""


def detail(source: Source, name: str, row: Row) -> dict[str, Any]:
    """Return the trace of `row` with its conversation. Raises Gone."""
    more: dict[str, Any] = {}
    try:
        if isinstance(source, Running):
            trace, more = source.trace, {"started": source.started.model_dump() if source.started else None}
        elif isinstance(source, Evaluation):
            record = Record.model_validate_json(row.place.read())
            trace, more = record, {"decided_by": record.decided_by, "metrics": record.metrics}
        elif isinstance(source, Training):
            rollout = RolloutRecord.model_validate_json(row.place.read())
            trace, more = rollout, {"status": str(rollout.outcome), "split": rollout.split}
        else:
            trace = Trace.model_validate_json(row.place.read())
    except (OSError, ValidationError) as error:
        raise Gone(f"the trace {name} of {source.name} is not there any more") from error
    limit = source.max_turns(row)
    known = {**cells(name, row), "question": trace.task.question, "gold": row.gold, "running": row.outcome == "running"}
    return {
        **known,
        **more,
        "trace": trace.model_dump(mode="json"),
        "memory": memory(trace, limit),
        "max_turns": limit,
    }


def memory(trace: Trace, max_turns: int) -> list[tuple[str, str]]:
    """Return the conversation that the planner read, as (role, text) from the question on."""
    turns = [_turn(turn) for turn in trace.turns]
    conversation = messages(trace.task.question, trace.analysis, turns, "", max_turns)[1:]
    return [("planner" if isinstance(message, AIMessage) else "user", str(message.text)) for message in conversation]


def _turn(turn: TraceTurn) -> Turn:
    text = turn.plan or f"Sub-Goal: {turn.sub_goal}\nTool: {turn.tool}\nContext: {turn.context}"
    action = Action(arguments=turn.arguments, result=turn.result)
    return Turn(turn=turn.turn, plan=Plan(text=text), action=action, verdict=turn.verdict)
