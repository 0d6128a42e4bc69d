"""The limits and the outcome of a program: the types shared by the sandbox and its tools."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from agentflow.tools.coded_error import Cause, CodedError

SLOTS = 64
"""Maximum number of concurrent programs."""

NO_FILES: Mapping[str, str] = MappingProxyType({})

Stopped = Literal["", "timeout", "flood", "disk", "cancelled"]
"""Reason why the program was stopped from outside; empty if it was not."""


@dataclass(frozen=True)
class Limits:
    """The resource limits of a program."""

    seconds: float = 10.0
    """Seconds of wall-clock time, and of CPU time over all threads (rounded up)."""
    memory_bytes: int = 1 << 30
    """Address space in bytes, beyond that of the interpreter and the preloaded libraries."""
    file_bytes: int = 16 << 20
    """Largest size of one file."""
    disk_bytes: int = 64 << 20
    """Largest size of all files together."""
    files: int = 1000
    """Maximum number of files and folders that it creates."""
    threads: int = 64
    output_bytes: int = 64 << 10
    """Maximum size of standard output. Standard error may be longer; its end is kept."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit that is not a number above zero."""
        for name, value in vars(self).items():
            if type(value) not in ((int, float) if name == "seconds" else (int,)) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be a number above zero, not {value!r}")


@dataclass(frozen=True)
class Outcome:
    """The end of a program."""

    stdout: str
    stderr: str
    """The end of standard error."""
    status: int
    """Exit status, or the negated signal number if a signal ended it."""
    stopped: Stopped = ""
    tier: str = ""
    """The tier that confined it: see `tiers`."""


ERRORS_KEPT = 8192
"""Bytes of standard error of which an outcome has the end."""


class SandboxError(CodedError, RuntimeError):
    """The sandbox failed, not the program. The message is one line with the reason and the remedy.

    It is not a tool result that a planner could act on. It ends the run, as an unavailable model does.
    """

    cause: ClassVar[Cause] = "infrastructure"
    configuration = False
    """Same meaning as in ModelError: False since a retry can help."""
