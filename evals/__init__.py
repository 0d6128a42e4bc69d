"""Benchmarks, their scorers and the runner that evaluates the compiled graph on them."""
