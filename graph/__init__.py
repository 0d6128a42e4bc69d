"""The typed memory (`state`), what a run may set (`context`), the models, and the graph of the nodes (`agent`)."""
