"""Rollouts: a graph played by the policy, its recorded calls, and the training rows that they become."""
