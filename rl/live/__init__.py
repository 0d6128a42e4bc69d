"""Serving while learning: answers of an agent, feedback on them, and new versions of its planner (`serve --learn`)."""
