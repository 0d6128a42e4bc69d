"""What a program prints, as far as it is kept."""

from agentflow.tools.sandbox.limits import Limits

ERRORS_KEPT = 8192
MOST_ERRORS = 16 << 20
"""Bytes of standard error after which a program is stopped: warnings may be many, but they cost the host time."""


class Output:
    """Collects the two streams; never holds more than the limit and one read."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.output_bytes
        self._output = bytearray()
        self._errors = bytearray()
        self._errors_seen = 0

    def add_output(self, chunk: bytes) -> None:
        """Of standard output."""
        self._output += chunk

    def add_errors(self, chunk: bytes) -> None:
        """Of standard error."""
        self._errors_seen += len(chunk)
        self._errors += chunk
        del self._errors[:-ERRORS_KEPT]

    @property
    def flooded(self) -> bool:
        """Whether the program printed more than it may."""
        return len(self._output) > self._limit or self._errors_seen > MOST_ERRORS

    def texts(self) -> tuple[str, str]:
        """Both streams, decoded and stripped."""
        return _decode(self._output[: self._limit]), _decode(self._errors)


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "replace").strip()
