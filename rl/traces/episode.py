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
    NOT_TEXT = "run with messages that are not text, or that cannot be read"
    BAD_SCORE = "score that is no number from 0 to 1"


Dropped = defaultdict[DropReason, list[str]]  # places, as in "chat.jsonl, line 12"


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

    @property
    def key(self) -> str:
        """Identify the question with what was said before it; white space does not count."""
        return identity(" ".join(str(self.inputs or self.question).split()))
