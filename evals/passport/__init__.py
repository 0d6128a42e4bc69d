"""The passport of an evaluation: provenance of its scores, obstacles to reproducing them, and an audit for leaks."""
