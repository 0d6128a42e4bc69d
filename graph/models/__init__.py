"""Models by name: their specs, loading and calls, and errors of endpoints."""
