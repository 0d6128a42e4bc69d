"""Trainings that were spoilt on purpose, and what the alarm says of them: `python -m benchmarks.collapse`."""
