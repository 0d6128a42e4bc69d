"""Errors of benchmarks; `str()` is one line that says why and what to do."""


class BenchmarkError(ValueError):
    """A benchmark cannot be used."""


class TokenNeeded(BenchmarkError):
    """A data set is gated, and the user's token is missing or does not open it."""
