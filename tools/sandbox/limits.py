"""What a program may use and how it ended: the words in which sandbox and tool speak."""

import math
from dataclasses import dataclass, fields
from typing import Literal

Stopped = Literal["", "timeout", "flood", "disk", "cancelled"]
"""Why a program was stopped from outside, if it was."""


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    seconds: float = 10.0
    """Of wall-clock time, and of CPU time over all threads (rounded up)."""
    memory_bytes: int = 1 << 30
    """Address space, above what the interpreter and the preloaded libraries take."""
    file_bytes: int = 16 << 20
    """Of one file."""
    disk_bytes: int = 64 << 20
    """Of all files together."""
    files: int = 1000
    """Files and folders that it may create."""
    threads: int = 64
    output_bytes: int = 64 << 10
    """Of standard output; standard error may be longer, and its end is kept."""

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that is not a number above zero."""
        for field in fields(self):
            value = getattr(self, field.name)
            kind = (int, float) if field.name == "seconds" else int
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < math.inf:
                raise ValueError(f"{field.name} must be a number above zero, not {value!r}")


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    stdout: str
    stderr: str
    """Its last 8 KiB."""
    status: int
    """Exit status; minus the signal's number if a signal ended it."""
    stopped: Stopped = ""
    tier: str = ""
    """What confined it: see `tiers`."""


class SandboxError(RuntimeError):
    """The sandbox, not the program, failed: one line that says why and what to do.

    It is no result of the tool, from which a planner could learn: it ends the run, as a model that is down does.
    """

    configuration = False
    """As of a ModelError: trying again can help."""
