"""Errors in the settings of tracing."""


class TracingError(ValueError):
    """Tracing cannot be switched on; `str()` is one line that says what to do."""
