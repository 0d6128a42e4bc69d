"""The result of a tool call, as data for both success and failure."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from agentflow.tools.coded_error import CodedError
from agentflow.tools.redaction import redacted

PROVIDER = "agentflow_provider"
"""Key in a tool's artifact for the provider that answered, and the language model behind it if any."""


class ErrorClass(StrEnum):
    """Reason why a turn failed. The classes are disjoint: each failed turn has exactly one."""

    BAD_PLAN = "bad_plan"
    """The planner's text named no step that could be parsed."""
    UNKNOWN_TOOL = "unknown_tool"
    """The planner named a tool that is not enabled, or several."""
    BAD_ARGUMENTS = "bad_arguments"
    """The executor's arguments could not be parsed or do not fit the tool's schema."""
    TOOL_ERROR = "tool_error"
    """The tool ran and failed, or raised."""
    TIMEOUT = "timeout"
    """The tool, or the run's time budget, ran out."""
    EMPTY_RESULT = "empty_result"
    """The tool ran and returned nothing."""
    MODEL_ERROR = "model_error"
    """A model that the tool depends on could not be reached or refused the request."""
    REFUSED = "refused"
    """A person refused the call."""
    UNCERTAIN = "uncertain"
    """The run was interrupted during the call: it may have been carried out, and was not repeated."""


class ToolResult(BaseModel):
    """The outcome of one tool call, as memory keeps it and as the planner reads it."""

    status: Literal["ok", "error"]
    output: str
    """The tool's output; for an error, one line on what went wrong."""
    error: ErrorClass | None = None
    """Set exactly when `status` is "error"."""
    seconds: float = Field(default=0.0, ge=0)
    sandbox: str = ""
    """The sandbox's tier, for a tool that runs code (`agentflow.tools.sandbox.tiers`). Not shown in prompts."""
    provider: str = ""
    """The provider of a search tool: "tavily", "gemini (MODEL)" with its language model. Not shown in prompts."""

    def describe(self) -> str:
        """Return the result as prompts show it."""
        return f"Result: {self.output}" if self.error is None else f"Failed ({self.error}): {self.output}"

    def shortened(self, tokens: int) -> "ToolResult":
        """Return the result with its output cut to about `tokens` of four characters: head and tail around a mark.

        Results are cut once, when memory is written, so that later prompts repeat them unchanged.
        """
        limit = max(80, 4 * tokens)
        if len(self.output) <= limit:
            return self
        text = redacted(self.output)  # half of a key could not be recognised after the cut
        tail = limit // 3
        if (cut := len(text) - limit) > 0:
            text = f"{text[: limit - tail]} [... {cut} characters cut ...] {text[-tail:]}"
        return self.model_copy(update={"output": text})

    @classmethod
    def failed(cls, error: ErrorClass, output: str, seconds: float = 0.0, sandbox: str = "") -> "ToolResult":
        """Return a failure of class `error`; `output` is one line on what went wrong."""
        return cls(status="error", error=error, output=output, seconds=seconds, sandbox=sandbox)


class ToolFailure(CodedError):
    """A failure that a tool can classify. It becomes a `ToolResult` of that class, never a traceback.

    Its code is the class of the failure, unless the tool tells several causes of one class apart.
    """

    def __init__(self, error: ErrorClass, message: str, sandbox: str = "", *, code: str = "") -> None:
        super().__init__(message, code=code or error.value)
        self.error = error
        self.sandbox = sandbox
