"""`execute(code, limits) -> Outcome`, the interface between a tool and the sandbox.

Each process has one fork server. It starts with the first program, in the strongest tier that works, and restarts after
it has ended. Each program has a thread with blocking reads instead of asyncio transports, so any number of event loops
can use the sandbox.
"""

import asyncio
import atexit
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from agentflow.tools.sandbox import plain_subprocess, tiers
from agentflow.tools.sandbox.fork_client import ForkServerClient, NotStarted, ServerEnded
from agentflow.tools.sandbox.limits import NO_FILES, SLOTS, Limits, Outcome, SandboxError
from agentflow.tools.sandbox.turns import Turns

REMEDY = (
    "install bubblewrap (apt install bubblewrap), or set "
    f"{tiers.VARIABLE}={tiers.SUBPROCESS} to run programs without isolation"
)


_TRIES = 3
_PAUSE = 0.2
"""Seconds before the second attempt; twice that before the third."""


async def execute(code: str, limits: Limits, files: Mapping[str, str] = NO_FILES) -> Outcome:
    """Run `code` in a folder with these files, texts by name, and kill it when the caller is cancelled.

    At most 64 programs run at a time, fewer where memory is short. Further programs wait, and their waiting time does
    not count. Raises SandboxError if no sandbox works on this system, or if the sandbox failed while the program ran.
    """
    cancelled = threading.Event()
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads(), run, code, limits, cancelled, files)
    finally:
        cancelled.set()


def run(code: str, limits: Limits, cancelled: threading.Event, files: Mapping[str, str] = NO_FILES) -> Outcome:
    """Run a program in the calling thread, as `execute` does. It may wait long for its turn."""
    with _sandbox.turns.turn(limits.memory_bytes + limits.disk_bytes, cancelled) as had:
        return _run(code, limits, cancelled, files) if had else Outcome("", "", -signal.SIGKILL, "cancelled")


def _run(code: str, limits: Limits, cancelled: threading.Event, files: Mapping[str, str]) -> Outcome:
    """Run a program. One that did not start is tried again, by another server if this one ended."""
    problem = ""
    for attempt in range(_TRIES):
        cancelled.wait(attempt * _PAUSE)
        server = _sandbox.server()
        if server is None:
            return plain_subprocess.run(code, limits, cancelled, files)
        try:
            return server.run(code, limits, cancelled, files)
        except NotStarted as error:
            problem = str(error)
            if isinstance(error, ServerEnded):
                _sandbox.forget(server)
    raise SandboxError(f"{problem} ({_TRIES} times)")


def sandbox_level() -> str:
    """Return the tier that programs run in, with its description; this starts it. Raises SandboxError if none works."""
    server = _sandbox.server()
    name = server.tier if server else tiers.SUBPROCESS
    return f"{name}: {tiers.DESCRIPTIONS[name]}"


def unavailable() -> str | None:
    """Return None if programs can run on this system, else the reason and the remedy."""
    try:
        _sandbox.server()
    except SandboxError as error:
        return str(error)
    return None


class _Sandbox:
    """The fork server of this process, and the turns of its programs."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._lock = threading.Lock()
        self._server: ForkServerClient | None = None

    def server(self) -> ForkServerClient | None:
        """Return the server, and start it if there is none. Return None in the tier without a server.

        Raises SandboxError if no tier works.
        """
        with self._lock:
            if self._server is None:
                self._server = _start()
            return self._server

    def forget(self, server: ForkServerClient) -> None:
        """Close a server that failed; the next program starts another."""
        with self._lock:
            if self._server is server:
                self._server = None
                server.close()

    def close(self) -> None:
        """Close the server, if there is one."""
        if self._server:
            self.forget(self._server)


def _start() -> ForkServerClient | None:
    reasons = []
    for name in tiers.candidates():
        if name == tiers.SUBPROCESS:
            return None
        try:
            return ForkServerClient(name)
        except SandboxError as error:
            reasons.append(f"{name}: {error}")
    raise SandboxError(f"no sandbox works here ({'; '.join(reasons)}); {REMEDY}", code="no_tier")


def _renew() -> None:
    """Create a new sandbox in a forked process, since threads and locks do not survive a fork."""
    global _sandbox
    _inherited.append(_sandbox)  # a reference keeps it from being closed in this process
    _sandbox = _Sandbox()
    _threads.cache_clear()


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SLOTS, thread_name_prefix="python_coder")


_sandbox = _Sandbox()
_inherited: list[_Sandbox] = []
atexit.register(lambda: _sandbox.close())
os.register_at_fork(after_in_child=_renew)
