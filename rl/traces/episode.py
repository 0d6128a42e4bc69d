"""An episode: one run of an agent as any source records it, the common form between readers and writers."""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentflow.graph.run.task import identity
from agentflow.tools.coded_error import CodedError

Message = dict[str, Any]  # as chat templates take it; see `agentflow.rl.policy.chat.TemplateMessage`


class TracesError(CodedError, ValueError):
    """A source cannot be turned into training data; `str()` is one line with the reason and the remedy."""


class DropReason(StrEnum):
    """Why something was dropped."""

    MALFORMED = "line that is no JSON object"
    OTHER_FORMAT = "line of another format"
    OTHER_CONVENTION = "span of another convention than OpenTelemetry's for generative AI and OpenInference"
    NO_QUESTION = "run without a question"
    NO_REWARD = "run without a reward: not in sft.jsonl"
    REJECTED = "run with a reward below --min-reward: not in sft.jsonl"
    NO_CONVERSATION = "accepted run whose model calls have no recorded text: not in sft.jsonl"
    NOT_TEXT = "model call with parts that are not text, or that cannot be read"
    BAD_SCORE = "score that is no number from 0 to 1"


Dropped = defaultdict[DropReason, list[str]]  # places, as in "chat.jsonl, line 12"


@dataclass
class Conversation:
    """The messages of one model call, its reply last; or of several, where each continues the one before."""

    node: str  # path of the node that called, with slashes; "" if the source does not tell
    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)  # that were offered, in OpenAI's format


@dataclass
class Episode:
    """One run; a later episode with the name of an earlier `run` replaces it."""

    place: str
    question: str
    answer: str = ""
    id: str = ""  # of the task in its source
    run: str = ""
    inputs: dict[str, Any] | None = None  # of the graph, where they are more than the question
    gold: str = ""
    edit: str = ""  # the answer as a person corrected it
    reward: float | None = None  # 0 to 1; None if the source has no score
    family: str = ""
    data: dict[str, Any] = field(default_factory=dict)  # further columns of the task
    calls: list[Conversation] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Identify the question with what was said before it; white space does not count."""
        return identity(" ".join(str(self.inputs or self.question).split()))


def joined(calls: list[Conversation]) -> list[Conversation]:
    """Join each call with the longest earlier conversation of its node that it continues, as packing joins tokens."""
    found: list[Conversation] = []
    for call in calls:
        begins = [one for one in found if one.node == call.node and call.messages[: len(one.messages)] == one.messages]
        if longest := max(begins, key=lambda one: len(one.messages), default=None):
            found[found.index(longest)] = call
        else:
            found.append(call)
    return found
