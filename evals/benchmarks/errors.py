"""Errors of benchmarks; `str()` is one line with the reason and a remedy."""


class BenchmarkError(ValueError):
    """A benchmark cannot be used."""


class TokenNeeded(BenchmarkError):
    """A data set is gated, and the user's token is missing or has no access."""
