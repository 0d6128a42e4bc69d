"""Live tracing of runs, to OpenTelemetry, LangSmith or a log. The entry point is `setup.tracing`."""
