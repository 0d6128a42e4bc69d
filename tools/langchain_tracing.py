"""Redaction of the traces that LangChain itself sends to LangSmith, where its own switch is on."""

import logging
import os
from typing import Any
from weakref import WeakSet

from agentflow.tools.redaction import redacted_data

SWITCHES = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")
"""LangChain's variables that switch tracing on, if one is `true`."""

_warned = WeakSet[Any]()
"""Clients of which was warned."""

_log = logging.getLogger(__name__)


def redact_langchain_tracing() -> None:
    """Redact what LangChain sends, or warn that a client of the program prevents it.

    LangChain builds one client at the first run of the process, so this is called before every run.
    """
    from langsmith.run_helpers import get_tracing_context
    from langsmith.run_trees import get_cached_client

    # Not LangSmith's `tracing_is_enabled`, which would remember for the rest of the process that a variable is not set.
    if get_tracing_context()["enabled"] is not True and not any(os.environ.get(name) == "true" for name in SWITCHES):
        return
    try:
        client = get_cached_client(anonymizer=redacted_data)
    except Exception:  # LangChain builds it in the same way, and goes on without traces after a warning
        return
    if client._anonymizer is None and client not in _warned:
        _warned.add(client)
        _log.warning(
            "LangSmith receives runs with their secrets, through a client of this program without an anonymizer; "
            "import agentflow before the first run, or use agentflow.tracing('langsmith')"
        )
