"""Feedback on one node for the reflection model: its calls in some rollouts, their rewards, and reasons of failures.

A rollout that ended before the node was reached is shown too, with the calls that were made instead. So the prompt of a
node that no rollout reaches is written anew from what the rest of the run lacked.
"""

from collections.abc import Sequence
from typing import Any

from agentflow.rl.prompts.attempt import Attempt, NodeCall
from agentflow.tools.redaction import cut, redacted

MOST = 2_000
"""Characters of each text that are shown."""

CALLS = 4
"""Calls of a rollout that are shown: the first, and the last ones."""

Record = dict[str, Any]

NOT_REACHED = "none: the run ended before this assistant was asked. The calls of the other assistants are below."


def record_of(node: str, attempt: Attempt) -> Record:
    """Return a rollout as the reflection model reads it, for the prompt of `node`."""
    task = attempt.trace.task
    own = [call for call in attempt.calls if call.node == node]
    record: Record = {"Task": _shown(task.question), "Calls of the assistant": [*map(_call, _some(own))] or NOT_REACHED}
    if not own:
        record["Calls of other assistants"] = [{"Assistant": call.node, **_call(call)} for call in _some(attempt.calls)]
    record["Result of the whole run"] = _shown(attempt.trace.answer) or "none"
    record["Feedback"] = _feedback(attempt)
    return record


def _some(calls: Sequence[NodeCall]) -> Sequence[NodeCall]:
    return calls if len(calls) <= CALLS else [calls[0], *calls[1 - CALLS :]]


def _call(call: NodeCall) -> Record:
    return {"Input": _shown(call.prompt), "Reply": _shown(call.reply)}


def _feedback(attempt: Attempt) -> str:
    trace = attempt.trace
    lines = [f"The run has the reward {attempt.reward:g} (0 is worst, 1 is best)."]
    if trace.task.gold and attempt.reward < 1:
        lines.append(f"The expected answer is: {_shown(trace.task.gold)}")
    lines += [
        f"Turn {turn.turn}, tool {turn.tool or '(none)'}: {turn.result.error}, {_shown(turn.result.output)}"
        for turn in trace.turns
        if turn.result.error
    ]
    if trace.error:
        lines.append(f"The run failed: {_shown(trace.error)}")
    return "\n".join(lines)


def _shown(text: str) -> str:
    return redacted(cut(text.strip(), MOST, " ..."))
