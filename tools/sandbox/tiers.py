"""The tiers of the sandbox, from the strongest down, and how each starts its fork server.

A tier is tested by starting it and running a program that tries to escape; see `fork_client.ForkServerClient`. The
system's settings (sysctls, AppArmor, a container's profile) are not read, since they are not conclusive.
"""

import os
import sys

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
    "names, sizes and modes of the host's files can be seen, which bubblewrap hides where it is installed and works",
    SUBPROCESS: "resource limits and an empty environment, NO isolation of files or network",
}


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


def command(tier: str, *arguments: str) -> list[str]:
    """Return the command that starts a fork server in `tier`, which is any but `SUBPROCESS`. Raises SandboxError."""
    if tier == "landlock":
        return interpreter.command("fork_server", str(interpreter.home()), *arguments)
    server = interpreter.command("fork_server", bubblewrap.HOME, *arguments)
    return bubblewrap.command(server, user_namespace=tier == "bwrap-userns")


def surroundings(tier: str, folders: str) -> Surroundings:
    """Return the surroundings of the fork server of `tier`. `folders` is the parent of the programs' folders."""
    if tier != "landlock":
        first_user = _first_user() if tier == "bwrap" else None
        return Surroundings(own_mounts=True, own_tmp=bubblewrap.own_tmp(), first_user=first_user, folders=folders)
    return Surroundings(
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
