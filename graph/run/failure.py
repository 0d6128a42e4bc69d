"""Who or what ended a run early, and the sentence about it: the one place that decides for all that play a graph."""

from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError

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


def sentence_of(error: Exception) -> str:
    """Return a failure in one line without secrets. The message of an error of ours is written for users."""
    text = str(error) if isinstance(error, CodedError) else f"{type(error).__name__}: {error}"
    return redacted(" ".join(text.split()))
