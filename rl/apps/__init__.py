"""What can be trained: a graph with its tasks and its reward."""
