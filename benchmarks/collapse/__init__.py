"""Trainings that are sabotaged on purpose, to measure the alarm: `python -m benchmarks.collapse`."""
