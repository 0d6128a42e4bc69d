"""Errors in the settings of tracing."""

from agentflow.tools.coded_error import CodedError


class TracingError(CodedError, ValueError):
    """Tracing cannot be switched on; `str()` is one line that says what to do."""
