"""Who or what ended a run early, and the sentence about it: the one place that decides for all that play a graph."""

from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError, OutputParserException
from langgraph.errors import GraphRecursionError
from pydantic import ValidationError

from agentflow.graph.models.reply import UNREADABLE
from agentflow.graph.tracing.operation import REFUSALS, Operation
from agentflow.tools.coded_error import Cause, CodedError
from agentflow.tools.redaction import redacted

CLIENTS = {"anthropic", "google", "httpcore", "httpx", "openai"}
"""Packages whose exceptions, passed on by a graph, mean that a model did not answer."""


def cause_of(error: Exception) -> Cause:
    """Return the cause of a failure: an error of ours declares it; a client's error is its server's."""
    if isinstance(error, CodedError):
        return error.cause
    if isinstance(error, ContextOverflowError | ModelInvalidRequestError):  # the request was the cause
        return "agent"
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return "agent" if CLIENTS.isdisjoint(packages) else "infrastructure"


MALFORMED = (OutputParserException, ValidationError, GraphRecursionError)
"""What is raised in a graph for a reply that does not have the form that was asked for, or by an endless loop."""


class Blame:
    """Sink that tells whether the policy is the cause of a failure: by its last call, and by the tool's that it made.

    It must come before a sink that takes the ids out of replies.
    """

    def __init__(self) -> None:
        self._spoke, self._unreadable = False, False
        self._last: Operation | None = None

    def begin(self, operation: Operation) -> None:
        """Do nothing."""

    def end(self, operation: Operation) -> None:
        """Remember the last call of a model or a tool that ended."""
        if operation.kind in ("model_call", "tool_call"):
            said = operation.replies[0].response_metadata if operation.replies else {}
            self._spoke, self._unreadable = self._spoke or "token_ids" in said, bool(said.get(UNREADABLE))
            self._last = operation

    def cause_of(self, error: Exception) -> Cause:
        """Return the cause of a failure of the run, as `cause_of` does where no policy has spoken."""
        cause, last = cause_of(error), self._last
        if cause != "agent" or isinstance(error, CodedError) or not self._spoke or last is None:
            return cause
        if last.kind == "tool_call" and last.error:
            raised = (last.error, last.message) == (type(error).__name__, str(error))
            return "tool" if raised and not isinstance(error, REFUSALS) else "policy"
        return "policy" if self._unreadable or isinstance(error, MALFORMED) else cause


def sentence_of(error: Exception) -> str:
    """Return a failure in one line without secrets. The message of an error of ours is written for users."""
    text = str(error) if isinstance(error, CodedError) else f"{type(error).__name__}: {error}"
    return redacted(" ".join(text.split()))
