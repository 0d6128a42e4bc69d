"""What a check finds: a line of a report, or what came of trying a tool."""

from dataclasses import dataclass
from typing import Literal

Check = tuple[str, Literal["ok", "no", "-"], str]
"""A line of a report: what, whether it works ("-": nobody asked), and what there is to say or to do."""


@dataclass(frozen=True)
class Trial:
    """What came of trying a tool."""

    name: str
    works: Literal["ok", "no", "-"]
    """"-": it was not called."""
    says: str
    """The beginning of the result, or what to do."""
    call: str = ""
    """The arguments, as JSON."""
    seconds: float | None = None
    tier: str = ""
    """The sandbox's, of a tool that runs code."""
