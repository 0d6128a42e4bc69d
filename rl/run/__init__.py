"""A run: what a training leaves in its folder, and its export and replay."""
