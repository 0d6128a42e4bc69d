"""`execute(code, limits) -> Outcome`: all that a tool needs to know of the sandbox.

One fork server per process, started with the first program in the strongest tier that works, and again after it ended.
A thread per program with blocking reads, rather than asyncio's transports: it does not matter then which event loop, or
how many, ask.
"""

import asyncio
import atexit
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from agentflow.tools.sandbox import plain_subprocess, tiers
from agentflow.tools.sandbox.fork_client import ForkServer, NotStarted, ServerEnded
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError
from agentflow.tools.sandbox.turns import SLOTS

REMEDY = (
    "install bubblewrap (apt install bubblewrap), or set "
    f"{tiers.VARIABLE}={tiers.SUBPROCESS} to run programs without isolation"
)


_TRIES = 3
_PAUSE = 0.2
"""Seconds before the second try; twice that before the third."""


async def execute(code: str, limits: Limits) -> Outcome:
    """Runs `code` in an empty folder; kills it when the caller is cancelled.

    At most 64 programs run at a time, fewer where memory is short; further ones wait, and their time does not count.
    Raises SandboxError if no sandbox works here, or if it failed while the program ran.
    """
    cancelled = threading.Event()
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads(), run, code, limits, cancelled)
    finally:
        cancelled.set()


def run(code: str, limits: Limits, cancelled: threading.Event) -> Outcome:
    """`execute` for a thread. A program that was not started is tried again, by another server if this one ended."""
    problem = ""
    for attempt in range(_TRIES):
        cancelled.wait(attempt * _PAUSE)
        server = _sandbox.server()
        if server is None:
            return plain_subprocess.run(code, limits, cancelled)
        try:
            return server.run(code, limits, cancelled)
        except NotStarted as error:
            problem = str(error)
            if isinstance(error, ServerEnded):
                _sandbox.forget(server)
    raise SandboxError(f"{problem} ({_TRIES} times)")


def tier() -> str:
    """The tier that programs run in, found by starting it. Raises SandboxError if none works."""
    server = _sandbox.server()
    return server.tier if server else tiers.SUBPROCESS


def sandbox_level() -> str:
    """What keeps programs in check, for people to read. Raises SandboxError as `tier` does."""
    name = tier()
    return f"{name}: {tiers.DESCRIPTIONS[name]}"


def unavailable() -> str | None:
    """None if programs can be run here, else why not and what to do."""
    try:
        tier()
    except SandboxError as error:
        return str(error)
    return None


class _Sandbox:
    """The fork server of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: ForkServer | None = None

    def server(self) -> ForkServer | None:
        """The running server, started if there is none; None in the tier that has none. Raises SandboxError."""
        with self._lock:
            if self._server is None:
                self._server = _start()
            return self._server

    def forget(self, server: ForkServer) -> None:
        """Ends a server that failed; the next program gets another."""
        with self._lock:
            if self._server is server:
                self._server = None
                server.close()

    def close(self) -> None:
        """Ends the server, if there is one."""
        if self._server:
            self.forget(self._server)


def _start() -> ForkServer | None:
    reasons = []
    for name in tiers.candidates():
        if name == tiers.SUBPROCESS:
            return None
        try:
            return ForkServer(name)
        except SandboxError as error:
            reasons.append(f"{name}: {error}")
    raise SandboxError(f"no sandbox works here ({'; '.join(reasons)}); {REMEDY}")


def _renew() -> None:
    """A process that this one forked has a sandbox of its own: threads and locks do not survive a fork."""
    global _sandbox
    _inherited.append(_sandbox)  # which is not to be closed here
    _sandbox = _Sandbox()
    _threads.cache_clear()


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SLOTS, thread_name_prefix="python_coder")


_sandbox = _Sandbox()
_inherited: list[_Sandbox] = []
atexit.register(lambda: _sandbox.close())
os.register_at_fork(after_in_child=_renew)
