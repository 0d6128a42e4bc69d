"""A pytest plugin that hides torch and what trains with it: tests that need them are skipped, as if not installed."""

import sys

for package in ("torch", "transformers", "verl", "ray"):
    sys.modules[package] = None  # type: ignore[assignment]
