"""The tiers of the sandbox that this machine has, each with a fork server that the tests share."""

import subprocess
import threading
from functools import lru_cache

import pytest

from agentflow.tools.sandbox.fork_client import ForkServer
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError

TIERS = ("bwrap", "bwrap-userns", "bwrap-userns-noproc", "landlock")


@lru_cache
def _started(tier: str) -> ForkServer | str:
    try:
        return ForkServer(tier)
    except SandboxError as error:
        return str(error)


def server(tier: str) -> ForkServer:
    """The running server of a tier; skips the test where that tier does not work."""
    started = _started(tier)
    if isinstance(started, str):
        pytest.skip(f"{tier}: {started}")
    return started


def close_all() -> None:
    for tier in TIERS:
        if isinstance(started := _started(tier), ForkServer):
            started.close()
    _started.cache_clear()


def run(server: ForkServer, code: str, limits: Limits | None = None) -> Outcome:
    return server.run(code, limits or Limits(), threading.Event())


def descendants(pid: int) -> set[int]:
    """The processes that `pid` started, and those that these started, and so on; zombies are not counted."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    alive = {int(row[0]): int(row[1]) for row in rows if row[2][0] not in "ZX" and row[3] != "ps"}
    found, parents = set[int](), {pid}
    while parents:
        parents = {child for child, parent in alive.items() if parent in parents}
        found |= parents
    return found
