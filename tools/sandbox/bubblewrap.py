"""The bubblewrap command that starts the fork server in a separate root file system with little more than Python.

The server keeps the capabilities that it needs to give each program separate mounts and a separate user. Programs get
no capabilities. Without `--cap-drop`, root inside the sandbox could make a read-only mount writable again.
"""

import os
import shutil
from pathlib import Path

from agentflow.tools.sandbox import interpreter
from agentflow.tools.sandbox.confine import WORK
from agentflow.tools.sandbox.limits import SandboxError

HOME = "/host"
"""Path of the `agentflow` package inside the sandbox. Only the parts that it runs are mounted."""

_UNSHARED = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP")
_CAPABILITIES_OF_ROOT = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")


def command(server: list[str], *, user_namespace: bool) -> list[str]:
    """Return the bubblewrap command that runs `server`. Raises SandboxError if bubblewrap is not installed."""
    bwrap = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath) + ":/usr/bin:/usr/local/bin")
    if bwrap is None:
        raise SandboxError("bubblewrap is not installed")
    capabilities = _CAPABILITIES if user_namespace else _CAPABILITIES + _CAPABILITIES_OF_ROOT
    arguments = [bwrap, *_UNSHARED, *(["--unshare-user"] if user_namespace else []), "--cap-drop", "ALL"]
    for capability in capabilities:
        arguments += ["--cap-add", capability]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--dir", WORK, "--dir", "/tmp"]  # noqa: S108
    arguments += [*_files(), "--chdir", "/", "--remount-ro", "/", "--"]
    return arguments + server


def own_tmp() -> bool:
    """Return whether a program's folder can also be mounted as /tmp. It cannot if the interpreter is below /tmp."""
    return not any(path.startswith("/tmp/") for path in interpreter.folders())  # noqa: S108


def _files() -> list[str]:
    """Return the arguments that mount the system, the interpreter and the fork server."""
    arguments: list[str] = []
    made = {"/", "/tmp"}  # noqa: S108
    for source in (*interpreter.SYSTEM, "/sys/devices/system/cpu", *interpreter.folders()):
        arguments += _parents(source, made)
        if source in interpreter.SYSTEM and os.path.islink(source):
            arguments += ["--symlink", os.readlink(source), source]
        elif os.path.exists(source):
            arguments += ["--ro-bind", source, source]
    package = interpreter.home() / "agentflow"
    for part in ("__init__.py", "tools/__init__.py", "tools/coded_error.py", "tools/sandbox"):
        target = f"{HOME}/agentflow/{part}"
        arguments += [*_parents(target, made), "--ro-bind", os.path.realpath(package / part), target]
    return arguments


def _parents(path: str, made: set[str]) -> list[str]:
    """Return the arguments that create the folders above `path`. Otherwise only root could enter them."""
    new = [str(parent) for parent in reversed(Path(path).parents) if str(parent) not in made]
    made.update(new)
    return [argument for parent in new for argument in ("--dir", parent)]
