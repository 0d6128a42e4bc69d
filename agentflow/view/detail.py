"""One trace in full, with the conversation that its planner read, and all calls where they were recorded.

The planner's own code renders the messages: its prompt in turn t is the instructions and the first 2 t - 1 messages.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from agentflow.evals.audit import flags_of, own_models
from agentflow.evals.record import EvaluationSettings, Record
from agentflow.graph.run.recorder import RunCalls
from agentflow.graph.run.trace import Trace, TraceTurn
from agentflow.graph.state import Action, Plan, Turn
from agentflow.nodes.planner import messages
from agentflow.rl.rollout.rollout import RolloutTrace
from agentflow.tools.json_codec import model_from_json
from agentflow.view.query import cells
from agentflow.view.rows import Row
from agentflow.view.sources import Evaluation, Source, TraceFile, Training


class Gone(Exception):
    """The file was rewritten, and the line no longer exists."""


def detail(source: Source, name: str, row: Row) -> dict[str, Any]:
    """The trace of `row`. Raises Gone."""
    try:
        line = row.place.read()
        if isinstance(source, Evaluation):
            record = model_from_json(Record, line)
            models = own_models(source.settings) if source.settings else {}
            flags = [str(flag) for flag in flags_of(record, models)]
            found = scored(record, source.settings, source.max_turns(row), flags)
        elif isinstance(source, Training):
            rollout = model_from_json(RolloutTrace, line)
            found = {
                "status": str(rollout.outcome),
                "split": rollout.split,
                **texts_of(rollout, source.max_turns(row)),
            }
        else:
            found = texts_of(model_from_json(Trace, line), source.max_turns(row))
    except (OSError, ValidationError) as error:
        raise Gone(f"the trace {name} of {source.name} is not there any more") from error
    calls = source.calls.of(line) if isinstance(source, TraceFile) else None
    if isinstance(source, Training) and rollout.spans:
        calls = RunCalls(spans=rollout.spans, messages=[]).model_dump(mode="json")
    return {**cells(name, row), **found, "calls": calls}


def scored(record: Record, settings: EvaluationSettings | None, max_turns: int, flags: Sequence[str]) -> dict[str, Any]:
    """Return the texts of a trace of an evaluation, with its decision and the audit's flags.

    The memory of an agent that is not AgentFlow is empty, because its prompts are others.
    """
    found = {"decided_by": record.decided_by, "metrics": record.metrics, "flags": flags, **texts_of(record, max_turns)}
    return {**found, "memory": []} if settings and settings.agent != "agentflow" else found


def texts_of(trace: Trace, max_turns: int) -> dict[str, Any]:
    """Return the texts of a trace, with the memory that its planner read."""
    return {
        "question": trace.task.question,
        "gold": trace.task.gold,
        "trace": trace.model_dump(mode="json", include={*Trace.model_fields} - {"task"}),
        "memory": memory(trace, max_turns),
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
