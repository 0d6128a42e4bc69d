"""Error of a source of traces that cannot be read at all."""

from agentflow.tools.coded_error import CodedError


class TracesError(CodedError, ValueError):
    """A source cannot be turned into training data; `str()` is one line with the reason and the remedy."""
