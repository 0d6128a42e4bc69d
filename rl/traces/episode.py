"""An episode: one run of an agent as any source records it, the common form between readers and writers.

Token ids are never derived from text: `exact` is filled by the reader of trainings alone, which has the ids that were
sampled.
"""

from dataclasses import dataclass, field
from typing import Any

from agentflow.graph.run.task import identity

Message = dict[str, Any]
"""A message as chat templates take it; see `agentflow.rl.chat.TemplateMessage`."""


@dataclass
class Conversation:
    """The messages of one model call, its reply last; or of several, where each continues the one before."""

    node: str
    """Path of the node that called, with slashes; "" if the source does not tell."""
    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Tools that were offered, in OpenAI's format."""


@dataclass
class Episode:
    """One run. A JSON object once it is a dictionary."""

    place: str
    """Where the source has it, as in "line 12"."""
    question: str
    answer: str = ""
    id: str = ""
    """Id of the task in its source."""
    run: str = ""
    """Name of the run in the source; a later episode of the same name replaces an earlier one. "" for no name."""
    inputs: dict[str, Any] | None = None
    """Input of the graph, where it is more than the question."""
    gold: str = ""
    edit: str = ""
    """The answer as a person corrected it."""
    reward: float | None = None
    """0 to 1; None if the source has no score."""
    family: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    """Further columns of the task."""
    calls: list[Conversation] = field(default_factory=list)
    exact: list[dict[str, Any]] = field(default_factory=list)
    """Rows of token ids as they were sampled."""

    @property
    def key(self) -> str:
        """Identify the question with what was said before it; white space does not count."""
        return identity(" ".join(str(self.inputs or self.question).split()))


def joined(calls: list[Conversation]) -> list[Conversation]:
    """Join each call with the longest earlier conversation of its node that it continues, as packing joins tokens."""
    found: list[Conversation] = []
    for call in calls:
        continued = [
            one for one in found if one.node == call.node and call.messages[: len(one.messages)] == one.messages
        ]
        if longest := max(continued, key=lambda one: len(one.messages), default=None):
            found[found.index(longest)] = call
        else:
            found.append(call)
    return found
