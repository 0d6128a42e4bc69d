"""Errors of benchmarks; `str()` is one line with the reason and a remedy."""

from collections.abc import Mapping

from agentflow.tools.coded_error import CodedError
from agentflow.tools.named_object import error_line
from agentflow.tools.untrusted_text import bounded_line

READING = (ValueError, KeyError, TypeError, AttributeError)
"""Exceptions of a reader that refuses a row."""


class BenchmarkError(CodedError, ValueError):
    """A benchmark cannot be used."""


class TokenNeeded(BenchmarkError):
    """A data set is gated, and the user's token is missing or has no access."""


def refused(refusal: str, row: Mapping[str, object], error: Exception, *, hidden: bool = False) -> BenchmarkError:
    """Return the error for a row that a reader refused. `refusal` begins it: "line 3 of quiz.jsonl is no question".

    A KeyError names the columns that were expected. `hidden` leaves out the text of others, which may contain a gated
    question.
    """
    if isinstance(error, KeyError):
        columns = bounded_line(", ".join(map(str, row)), 200) or "none"
        why = f"it has no column {error.args[0]}; its columns are {columns}"
    elif hidden:
        why = type(error).__name__
    else:
        why = bounded_line(str(error), 200) if isinstance(error, ValueError) else error_line(error)
    return BenchmarkError(f"{refusal}: {why}", code="bad_row")
