"""The trace of a task: one line of JSON, written by `agentflow solve`, `eval` and `train` alike.

Reports, the viewer and resuming read the same model. Secrets that a server or a tool repeats are removed before a line
is written (`agentflow.tools.redaction`).
"""

import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, computed_field

from agentflow.graph.run.failure import cause_of, sentence_of
from agentflow.graph.run.recorder import RunCalls, calls_file, calls_line
from agentflow.graph.run.task import Task
from agentflow.graph.state import Turn, Verdict
from agentflow.tools.coded_error import Cause
from agentflow.tools.json_codec import to_json
from agentflow.tools.redaction import redacted_data
from agentflow.tools.result import ToolResult

TraceStatus = Literal["answered", "out_of_turns", "out_of_time", "no_plan", "abstained", "failed"]


FinishReasons = dict[str, list[str]]
"""Why the replies of each module ended, as the server says, in the order of its calls; "length" for one that reached
its limit of tokens."""


def cut_off(reasons: FinishReasons) -> list[str]:
    """Return the modules whose last reply reached its limit of tokens."""
    return [module for module, ended in reasons.items() if ended[-1] == "length"]


class TraceTurn(BaseModel):
    """A turn: planned, executed, verified."""

    turn: int = Field(ge=1)
    sub_goal: str
    context: str
    tool: str
    """Empty if the plan could not be parsed; as the planner wrote it if there is no such tool."""
    arguments: dict[str, Any]
    result: ToolResult
    verdict: Verdict
    plan: str = ""
    """The planner's output, verbatim. Empty for agents without a planner."""
    finish_reasons: FinishReasons = Field(default_factory=dict, exclude_if=lambda reasons: not reasons)
    """Why the replies in this turn ended, those of tools included."""

    @classmethod
    def of(cls, turn: Turn) -> "TraceTurn":
        """A turn of the memory as traces hold it."""
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
    """Tokens of one model, as its server counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    calls: int = 0
    """Replies that were counted."""
    cost: float | None = Field(default=None, exclude_if=lambda cost: cost is None)
    """US dollars, where the server reports them."""

    def __add__(self, other: "Tokens") -> "Tokens":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Tokens(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            calls=self.calls + other.calls,
            cost=sum(costs) if costs else None,
        )


class Usage(BaseModel):
    """Model calls, tokens and time of a run."""

    calls: int = 0
    """Model calls, failed ones included."""
    modules: dict[str, dict[str, Tokens]] = Field(default_factory=dict)
    """Tokens by module ("tools" is the model behind tools) and by the server's name for its model; servers that report
    no tokens are absent."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Seconds of model calls by module, failed calls included; concurrent calls add up."""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens of all models."""
        return sum(tokens.total_tokens for models in self.modules.values() for tokens in models.values())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, Tokens]:
        """Tokens by model."""
        found: dict[str, Tokens] = {}
        for models in self.modules.values():
            for model, tokens in models.items():
                found[model] = found[model] + tokens if model in found else tokens
        return found


class Trace(BaseModel):
    """The run of a task: its turns and its answer. `Record` adds a score to it, `RolloutTrace` a reward."""

    model_config = ConfigDict(extra="forbid")

    task: Task
    analysis: str = ""
    """The analyst's reading of the question, for the planner."""
    answer: str = ""
    confidence: float | None = Field(default=None, exclude_if=lambda confidence: confidence is None)
    """Probability that the answer is right, where a calibration tells it (`agentflow calibrate`)."""
    status: TraceStatus
    turns: list[TraceTurn] = Field(default_factory=list)
    """The finished turns; a run that failed has those before its failure."""
    usage: Usage = Usage()
    finish_reasons: FinishReasons = Field(default_factory=dict, exclude_if=lambda reasons: not reasons)
    """Why the other replies ended: those outside turns, as the generator's, and those of an unfinished turn."""
    seconds: float = 0.0
    """Wall-clock time of the run."""
    error: str = Field(default="", exclude_if=lambda error: not error)
    """Reason why the run failed, in one line; written only if it did."""
    cause: Cause | None = Field(default=None, exclude_if=lambda cause: cause is None)
    """Who or what failed; None if nothing did."""
    calls_made: RunCalls | None = Field(default=None, exclude=True, repr=False)
    """The modules and calls with their prompts, until they are written to a file of their own."""
    _failure: Exception | None = PrivateAttr(default=None)
    _state: Any = PrivateAttr(default=None)

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the run; None for a trace that was read from a file."""
        return self._failure

    @property
    def state(self) -> Any:
        """The graph's final state; None if the run failed, and for a trace that was read from a file."""
        return self._state

    @property
    def own_fields(self) -> dict[str, Any]:
        """The fields of `Trace` alone, without those that a subclass adds."""
        return {name: getattr(self, name) for name in Trace.model_fields}

    def ended_in(self, state: Any) -> Self:
        """This trace with the graph's final state."""
        ended = self.model_copy()
        ended._state = state
        return ended

    def failed_by(self, error: Exception, cause: Cause | None = None) -> Self:
        """This trace as a failure by `error`; its cause is by default what the error alone tells."""
        said = {"status": "failed", "error": sentence_of(error), "cause": cause or cause_of(error)}
        failed = self.model_copy(update=said)
        failed._failure, failed._state = error, None
        return failed


def to_line(record: BaseModel) -> str:
    """Serialise `record` as one line of ASCII JSON without secrets; no line break at the end."""
    return to_json(redacted_data(record.model_dump(mode="json")))


def append(path: Path, record: BaseModel) -> None:
    """Append `record` as a line, after its calls, if any, in their own file. Raises OSError."""
    line = to_line(record).encode() + b"\n"
    if isinstance(record, Trace) and record.calls_made:
        append_line(calls_file(path), calls_line(record.calls_made, line))
    append_line(path, line)


def append_line(path: Path, line: bytes) -> None:
    """Append a line, also where a crash left the last line unfinished. Raises OSError."""
    with path.open("ab+") as file:
        unfinished = file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n"
        file.write((b"\n" if unfinished else b"") + line)
