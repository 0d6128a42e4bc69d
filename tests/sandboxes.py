"""The tiers of the sandbox that this machine has, each with a fork server that the tests share."""

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentflow.tools.sandbox import execute as execution
from agentflow.tools.sandbox.fork_client import ForkServerClient
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError
from agentflow.tools.sandbox.tiers import SUBPROCESS, VARIABLE

BWRAP = shutil.which("bwrap")
NAMES = ("bwrap", "bwrap-userns", "landlock")


def _parameter(name: str) -> object:
    """A tier to test with. One that only others get, who are root or who are not, is for `make test-slow`."""
    others = name == "bwrap-userns" if os.geteuid() == 0 else name == "bwrap"
    return pytest.param(name, marks=pytest.mark.slow) if others else name


TIERS = [_parameter(name) for name in NAMES]


_started: dict[str, ForkServerClient | str] = {}
"""The servers that run, and why others do not."""


def server(tier: str) -> ForkServerClient:
    """The running server of a tier; skips the test where that tier does not work."""
    if tier not in _started:
        try:
            _started[tier] = ForkServerClient(tier)
        except SandboxError as error:
            _started[tier] = str(error)
    started = _started[tier]
    if isinstance(started, str):
        assert "ModuleNotFoundError" not in started, f"the tier lacks a file of ours: {started}"
        pytest.skip(f"the tier {tier} does not work: {started}{'' if BWRAP else ' (apt install bubblewrap)'}")
    return started


def executes_in(tier: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Makes `execute` use a tier, with a server of its own; skips the test where that tier does not work."""
    if tier != SUBPROCESS:
        server(tier)
    close_all()
    own = execution._Sandbox()
    monkeypatch.setattr(execution, "_sandbox", own)
    monkeypatch.setenv(VARIABLE, tier)
    yield tier
    own.close()


def close_all() -> None:
    for started in _started.values():
        if isinstance(started, ForkServerClient):
            started.close()
    _started.clear()


def run(server: ForkServerClient, code: str, limits: Limits | None = None) -> Outcome:
    return server.run(code, limits or Limits(), threading.Event())


def new_processes() -> Callable[[], set[int]]:
    """A function for the processes below this one that were started since; those of before may end meanwhile."""
    before = descendants(os.getpid())
    return lambda: descendants(os.getpid()) - before


def descendants(pid: int) -> set[int]:
    """The processes that `pid` started, and those that these started, and so on; zombies are not counted.

    They are found by the parent that each process names: /proc/PID/task/*/children comes and goes with threads.
    """
    children = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        _, parent = _state(int(entry.name))
        children[parent].append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children[parent]
    return {one for one in found[1:] if is_alive(one)}


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return _state(pid)[0] not in "ZX"


def _state(pid: int) -> tuple[str, int]:
    """The state of a process and its parent; X, dead, if it has ended or is hidden."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", -1
    return state, int(parent)
