"""Result types of the checks: a line of a report, and the trial of a tool."""

from dataclasses import dataclass
from typing import Literal

Check = tuple[str, Literal["ok", "no", "-"], str]
"""A line of a report: name, status ("-" if not required), and details or a remedy."""


@dataclass(frozen=True)
class Trial:
    """Result of a trial call of a tool."""

    name: str
    works: Literal["ok", "no", "-"]
    """Status; "-" if the tool was not called."""
    says: str
    """Output of the call, or a remedy."""
    call: str = ""
    """Arguments of the call, as JSON; empty if the tool was not called."""
    seconds: float | None = None
    tier: str = ""
    """Sandbox tier, for a tool that runs code."""
