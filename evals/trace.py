"""The trace: one question from start to end, as `agentflow solve` and `agentflow eval` write it.

One JSON object per line; reports, viewers and resuming read the same model. Secrets never enter a line, wherever a
server or a tool may have repeated them (`agentflow.tools.redaction`).
"""

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, computed_field, model_serializer

from agentflow.graph.state import Turn, Verdict
from agentflow.tools.redaction import redacted_data
from agentflow.tools.result import ToolResult

TraceStatus = Literal["answered", "out_of_turns", "out_of_time", "failed"]


class TraceTurn(BaseModel):
    """One round of the loop: planned, executed, verified."""

    turn: int = Field(ge=1)
    sub_goal: str
    context: str
    tool: str
    """Empty when the plan could not be read; as the planner wrote it when there is no such tool."""
    arguments: dict[str, Any]
    result: ToolResult
    verdict: Verdict
    plan: str = ""
    """The planner's output, to the letter: with results and verdicts, what it saw in later turns. Empty in files of
    earlier versions, and in those of agents that have no planner."""

    @classmethod
    def of(cls, turn: Turn) -> "TraceTurn":
        """The part of memory's turn that traces keep."""
        return cls(
            turn=turn.turn,
            sub_goal=turn.plan.sub_goal,
            context=turn.plan.context,
            tool=turn.plan.tool,
            arguments=turn.action.arguments,
            result=turn.action.result,
            verdict=turn.verdict,
            plan=turn.plan.text,
        )


class Tokens(BaseModel):
    """Tokens that one model read and wrote, as its server counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    calls: int = 0
    """Replies that were counted; 0 in files of earlier versions."""
    cost: float | None = None
    """US dollars, if the server says what its replies cost; None if it does not."""

    def __add__(self, other: "Tokens") -> "Tokens":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Tokens(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            calls=self.calls + other.calls,
            cost=sum(costs) if costs else None,
        )

    @model_serializer(mode="wrap")
    def _without_unknown_cost(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class Usage(BaseModel):
    """What a trace cost."""

    calls: int = 0
    """Model calls, failed ones included."""
    modules: dict[str, dict[str, Tokens]] = Field(default_factory=dict)
    """By module ("tools" is the model behind tools) and the name that the server gives its model; a server that counts
    no tokens is absent."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """By module, of its model calls, failed ones included; calls at the same time count each. Empty in files of earlier
    versions."""

    @property
    def total_tokens(self) -> int:
        """Read and written, of all models."""
        return sum(tokens.total_tokens for models in self.modules.values() for tokens in models.values())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, Tokens]:
        """The same by model."""
        found: dict[str, Tokens] = {}
        for models in self.modules.values():
            for model, tokens in models.items():
                found[model] = found[model] + tokens if model in found else tokens
        return found


class Trace(BaseModel):
    """One question, what was done about it, and the answer."""

    model_config = ConfigDict(extra="forbid")

    question: str
    analysis: str = ""
    """What the analyst made of the question, for the planner."""
    answer: str = ""
    status: TraceStatus
    turns: list[TraceTurn] = Field(default_factory=list)
    """The finished rounds; a run that failed keeps those before its failure."""
    usage: Usage = Usage()
    seconds: float = 0.0
    """Wall-clock time of the run."""
    error: str = ""
    """One line on why the run failed; written only if it did."""

    @model_serializer(mode="wrap")
    def _without_empty_error(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        if not self.error:
            del fields["error"]
        return fields


def to_line(record: BaseModel) -> str:
    """`record` as one line of JSON in ASCII, secrets struck out; no line break at the end."""
    return json.dumps(redacted_data(record.model_dump(mode="json")))


def append(path: Path, record: BaseModel) -> None:
    """Adds `record` as a line of its own, also where another writer left the last line unfinished. Raises OSError."""
    with path.open("ab+") as file:
        unfinished = file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n"
        file.write((b"\n" if unfinished else b"") + to_line(record).encode() + b"\n")
