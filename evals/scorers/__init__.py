"""Scorers: pure functions from an answer and the gold answer to correct, incorrect or undecided.

Rules come first and decide only what they are sure of; what is left is undecided, and a judge may be asked
(`agentflow.evals.benchmarks.benchmark`). Nothing here needs more than the standard library, raises, runs an answer or
takes more than a moment, whatever the answer. Each file is one rule.
"""
