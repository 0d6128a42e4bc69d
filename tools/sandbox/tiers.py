"""The tiers of the sandbox, from the strongest down, and how each starts its fork server.

A tier is tested by starting it and running a program that tries to escape; see `fork_client.ForkServerClient`. The
system's settings (sysctls, AppArmor, a container's profile) are not read, since they are not conclusive.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agentflow.tools.sandbox import bubblewrap, interpreter, kernel
from agentflow.tools.sandbox.confine import Surroundings
from agentflow.tools.sandbox.limits import SLOTS, SandboxError

VARIABLE = "AGENTFLOW_SANDBOX"
"""Environment variable that names the only tier to use. If unset, the strongest one that works is used."""

SUBPROCESS = "subprocess"
"""The tier without isolation, used on macOS or when named explicitly."""

_NEEDED = 1 << 0 | 1 << 7
"""Capabilities, as bits: CAP_CHOWN, CAP_SETUID."""
_FIRST_USER, _USERS = 61184, 4096
"""User ids that no account has: the range that systemd assigns to services."""

DESCRIPTIONS = {
    "bwrap": "a root file system, processes, network and user of its own, behind Landlock and seccomp",
    "bwrap-userns": "a root file system, processes and network of its own, behind Landlock and seccomp",
    "landlock": "the system's Python can be read and nothing else, no network, no processes (Landlock, seccomp); "
    "names, sizes and modes of the host's files can be seen: install bubblewrap to hide them",
    SUBPROCESS: "resource limits and an empty environment, NO isolation of files or network",
}


@dataclass(frozen=True)
class Launch:
    """Command line and settings of the fork server of a tier."""

    command: Callable[[list[str]], list[str]]
    """Maps the command of a bare server to that of a confined one. Raises SandboxError."""
    home: str
    """Path of the `agentflow` package for the server."""
    surroundings: Callable[[str], Surroundings]
    """Maps the parent of the programs' folders to the server's surroundings."""


def candidates() -> list[str]:
    """Return the tiers to try, in order. Raises SandboxError if the variable names a tier that does not exist."""
    named = os.environ.get(VARIABLE, "").strip() or "auto"
    if named in DESCRIPTIONS:
        return [named]
    if named != "auto":
        raise SandboxError(f"{VARIABLE} is '{named}', not one of auto, {', '.join(DESCRIPTIONS)}", code="unknown_tier")
    if sys.platform != "linux":
        return [SUBPROCESS]
    return ["bwrap" if _has_roots_rights() else "bwrap-userns", "landlock"]


def launch(tier: str) -> Launch:
    """Return how to start the fork server of `tier`, which is any but `SUBPROCESS`."""
    if tier == "landlock":
        return Launch(lambda server: server, str(interpreter.home()), _in_landlock)
    namespace = tier != "bwrap"
    return Launch(
        lambda server: bubblewrap.command(server, user_namespace=namespace),
        bubblewrap.HOME,
        partial(_in_bubblewrap, first_user=None if namespace else _first_user()),
    )


def _in_bubblewrap(folders: str, first_user: int | None) -> Surroundings:
    return Surroundings(
        own_mounts=True,
        own_tmp=bubblewrap.own_tmp(),
        readable=[],
        first_user=first_user,
        files_as_root=False,
        folders=folders,
    )


def _in_landlock(folders: str) -> Surroundings:
    return Surroundings(
        own_mounts=False,
        own_tmp=False,
        readable=[*interpreter.SYSTEM, *interpreter.DEVICES, *interpreter.folders()],
        first_user=_first_user(),
        files_as_root=not interpreter.readable_by_all(),
        folders=folders,
    )


def _first_user() -> int | None:
    """Return the first user id of this process. Each host process uses another range, so programs share no limit."""
    if not _has_roots_rights():
        return None
    return _FIRST_USER + os.getpid() * SLOTS % _USERS


def _has_roots_rights() -> bool:
    """Return whether this process is root and may give each program a separate user.

    Root may not in a container that drops capabilities, nor in a domain of `isolate`. It then counts as an ordinary
    user.
    """
    if os.geteuid() != 0:
        return False
    held = kernel.capabilities()
    return held is None or not _NEEDED & ~held
