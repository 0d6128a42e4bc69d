"""Trainable apps: a graph with its tasks and its reward."""
