"""Real small models on everyday questions: `python -m benchmarks.real`."""
