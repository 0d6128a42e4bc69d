"""Scorers: pure functions from an answer and the gold answer to correct, incorrect or undecided.

A rule decides only the cases that it is certain of. The others are undecided and can be passed to a judge
(`agentflow.evals.benchmarks.benchmark`). For any answer, a scorer raises no exception, runs no code from the answer and
takes bounded time. Scorers use only the standard library. Each file is one rule.
"""
