"""Training data from traces of other runs: our own folders, OpenTelemetry, LangSmith and chat rows."""
