"""Benchmarks that take minutes or hours; each is a command."""
