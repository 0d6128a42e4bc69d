"""LangSmith's own tracer, switched on for the whole process, with a client that strikes out secrets.

LangSmith shows prompts and answers. Inputs, outputs, metadata and errors pass through
`redacted_data` before they leave.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from agentflow.graph.tracing.errors import TracingError
from agentflow.tools.redaction import redacted_data

KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
PROJECTS = ("LANGSMITH_PROJECT", "LANGCHAIN_PROJECT")
DEFAULT_PROJECT = "agentflow"

FLUSH_SECONDS = 2.0
"""Longest wait for LangSmith when tracing ends, in seconds."""

_log = logging.getLogger(__name__)


@contextmanager
def langsmith_tracing(project: str = "") -> Iterator[None]:
    """Send every LangChain run of the process to LangSmith inside the block. Raises TracingError without a key."""
    if not any(os.environ.get(name, "").strip() for name in KEYS):
        raise TracingError("langsmith needs a key; set LANGSMITH_API_KEY", code="no_key")
    from langsmith import Client, configure

    named = (os.environ.get(name, "").strip() for name in PROJECTS)
    project = project or next(filter(None, named), DEFAULT_PROJECT)
    failed: list[Exception] = []
    client = Client(anonymizer=redacted_data, tracing_error_callback=failed.append)
    configure(client=client, enabled=True, project_name=project)
    requests = logging.getLogger("langsmith")
    level = requests.level
    requests.setLevel(logging.CRITICAL)  # its line for each failed request; one line at the end stands for all
    try:
        yield
    finally:
        try:
            configure(client=None, enabled=None, project_name=None)
            client.flush(timeout=FLUSH_SECONDS)
        finally:
            requests.setLevel(level)
            if failed:
                error = type(failed[-1]).__name__
                _log.warning("some traces did not reach LangSmith (%s); is it up, and the key valid?", error)
