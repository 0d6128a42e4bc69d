"""Bounded collection of a program's output."""

from agentflow.tools.sandbox.limits import Limits

ERRORS_KEPT = 8192
MOST_ERRORS = 16 << 20
"""Bytes of standard error after which a program is stopped. Warnings may be many, but reading them costs the host time.
"""


class Output:
    """The two output streams. They never hold more than the limit plus one read."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.output_bytes
        self._output = bytearray()
        self._errors = bytearray()
        self._errors_seen = 0

    def add_output(self, chunk: bytes) -> None:
        """Add a chunk of standard output."""
        self._output += chunk

    def add_errors(self, chunk: bytes) -> None:
        """Add a chunk of standard error, of which only the end is kept."""
        self._errors_seen += len(chunk)
        self._errors += chunk
        del self._errors[:-ERRORS_KEPT]

    @property
    def flooded(self) -> bool:
        """Return whether the program printed more than its limit."""
        return len(self._output) > self._limit or self._errors_seen > MOST_ERRORS

    def texts(self) -> tuple[str, str]:
        """Return standard output and standard error, decoded and stripped."""
        return _decode(self._output[: self._limit]), _decode(self._errors)


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "replace").strip()
