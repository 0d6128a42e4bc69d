"""A rollout of a search, and what the reflection model reads of it about one node: calls, reward and failures.

A rollout that ended before the node was reached is shown too, with the calls that were made instead. So the prompt of a
node that no rollout reaches is written anew from what the rest of the run lacked.
"""

from typing import Any

from pydantic import Field

from agentflow.graph.run.recorder import text_of
from agentflow.graph.run.trace import Trace
from agentflow.graph.tracing.operation import Operation
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.tools.redaction import cut, redacted

NOT_REACHED = "Calls of other assistants, as the run ended before this one was asked"


class PromptRollout(Trace):
    """A rollout with a candidate's prompts; a line of rollouts.jsonl."""

    candidate: str  # hash of the prompts
    outcome: RolloutStatus
    reward: float  # 0 to 1; 0.0 unless the outcome is OK
    systems: list[tuple[str, str]]  # nodes with their system messages, each pair once
    calls: list[dict[str, str]] = Field(default_factory=list, exclude=True)  # of nodes; none if read from a line


class CallLog:
    """Sink that collects the model calls of a rollout by node, without those of tools."""

    def __init__(self) -> None:
        self._ended: list[Operation] = []

    def begin(self, operation: Operation) -> None:
        """Do nothing."""

    def end(self, operation: Operation) -> None:
        """Take a call."""
        if operation.kind == "model_call" and operation.path and operation.module == operation.path[-1]:
            self._ended.append(operation)

    @property
    def calls(self) -> list[dict[str, str]]:
        """The calls in the order in which they ended, those of attempts that were given up aside."""
        return [_call(operation) for operation in self._ended if not operation.given_up]


def _call(operation: Operation) -> dict[str, str]:
    said = [
        (one["role"], "\n".join(map(text_of, one["parts"]))) for one in operation.content["gen_ai.input.messages"]()
    ]
    system = said.pop(0)[1] if said and said[0][0] == "system" else ""
    given = operation.content["gen_ai.output.messages"]() if operation.replies else ()
    replies = [text_of(part) for one in given for part in one["parts"]] or [f"({operation.error}: {operation.message})"]
    prompt = "\n\n".join(f"{role}: {text}" for role, text in said)
    return {"Assistant": "/".join(operation.path), "System": system, "Input": prompt, "Reply": "\n".join(replies)}


def record_of(node: str, rollout: PromptRollout) -> dict[str, Any]:
    """Return a rollout as the reflection model reads it, for the prompt of `node`."""
    own = [call for call in rollout.calls if call["Assistant"] == node]
    calls = own or rollout.calls
    feedback = [f"The run has the reward {rollout.reward:g} (0 is worst, 1 is best)."]
    if rollout.task.gold and rollout.reward < 1:
        feedback.append(f"The expected answer is: {_shown(rollout.task.gold)}")
    for turn in rollout.turns:
        if turn.result.error:
            feedback.append(f"Turn {turn.turn}, tool {turn.tool}: {turn.result.error}, {_shown(turn.result.output)}")
    if rollout.error:
        feedback.append(f"The run failed: {_shown(rollout.error)}")
    return {
        "Task": _shown(rollout.task.question),
        "Calls of the assistant" if own else NOT_REACHED: [
            {name: _shown(text) for name, text in call.items() if name != "System"}
            for call in calls[:1] + calls[1:][-3:]  # the first and the last
        ],
        "Result of the whole run": _shown(rollout.answer) or "none",
        "Feedback": "\n".join(feedback),
    }


def _shown(text: str) -> str:
    return redacted(cut(text.strip(), 2_000, " ..."))
