"""The paper's analyses of a trained planner, in miniature: `python -m benchmarks.analyses`."""
