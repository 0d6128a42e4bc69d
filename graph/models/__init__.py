"""Models by name: how they are named, loaded and asked, and what goes wrong with those behind an endpoint."""
