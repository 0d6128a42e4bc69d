"""The typed memory (`state`), the settings of a run (`context`), the models, and the graph of the nodes (`agent`)."""
