"""What a run does, as it does it: to OpenTelemetry, to LangSmith, to a log. `setup.tracing` is the way in."""
