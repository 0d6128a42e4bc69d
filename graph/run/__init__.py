"""One run of a graph: its task, its events, its calls and its trace."""
