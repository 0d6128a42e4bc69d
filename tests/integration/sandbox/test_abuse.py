"""No abuse program succeeds in any tier of this machine, judged from outside; and the judge sees those that would.

The programs try to get out, or to take more than their share; each does as little harm as it can where it succeeds. A
program that can only itself know that it succeeded prints ESCAPED. For all else the judge looks from outside. Names in
capitals after a $ are what the judge planted; TASKS, BYTES and so on bound the bombs.
"""

import ctypes
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from string import Template

import pytest

from agentflow.tools.sandbox import confine, plain_subprocess, tiers
from agentflow.tools.sandbox.limits import Outcome
from tests.cases import programs
from tests.integration.sandbox import judge
from tests.integration.sandbox.judge import LIMITS, Watch, World
from tests.sandboxes import TIERS, new_processes, run, server
from tests.waiting import LAST_RESORT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the tiers with isolation are Linux's"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the programs use system calls by their numbers"),
]

PRELUDE = (Path(__file__).parent / "cases/prelude.py.txt").read_text()

PROGRAMS = programs(Path(__file__).parent / "cases/abuse.txt")
SEEN = {name: code.partition("\n")[0].removeprefix("#> ") for name, code in PROGRAMS.items() if code.startswith("#> ")}
"""The judge's finding for each program when it runs without a sandbox, from the program's first line."""


def program(name: str, planted: dict[str, str]) -> str:
    """The text of a program, with the names of what was planted."""
    return PRELUDE + Template(PROGRAMS[name]).substitute(planted)


@pytest.fixture(scope="module", autouse=True)
def adopt_orphans() -> Iterator[None]:
    """Keep orphaned processes below this process."""
    PR_SET_CHILD_SUBREAPER = 36
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def world() -> Iterator[World]:
    """Return a folder that everyone can reach, so that only the sandbox keeps programs out."""
    with tempfile.TemporaryDirectory(prefix="abuse-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        with World(Path(folder)) as planted:
            yield planted


def judged(world: World, run: Callable[[], Outcome]) -> list[str]:
    """Return the program's forbidden achievements."""
    started = new_processes()
    watch = Watch(started)
    watch.start()
    start = time.monotonic()
    try:
        outcome = run()
    finally:
        seconds = time.monotonic() - start
        peak = watch.stop()
    return world.successes(outcome, seconds, peak, started)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_succeeds(tier: str, name: str, world: World) -> None:
    if name == "threads with raw system calls" and os.geteuid() == 0 and tier.startswith("bwrap-userns"):
        pytest.skip("the kernel exempts root from the limit on threads, in any namespace")
    sandbox = server(tier)
    run(sandbox, "def last_program():\n    return 'MARK-OF-THE-LAST'")
    assert judged(world, lambda: run(sandbox, program(name, world.names()), LIMITS)) == []
    assert run(sandbox, "print('next')").stdout == "next"


@pytest.mark.parametrize("tier", TIERS)
def test_the_kernel_limits_the_folder_where_it_can(tier: str, tmp_path: Path) -> None:
    """Also in the tier without mounts of its own, wherever a folder can be a mount."""
    sandbox = server(tier)
    around = tiers.surroundings("landlock", tempfile.gettempdir())
    if tier == "landlock" and not confine.own_folder_works(str(tmp_path), around):
        pytest.skip("the system allows no mount of a folder's own")
    said = run(sandbox, "import os\ns = os.statvfs('.')\nprint(s.f_blocks * s.f_frsize, s.f_files)", LIMITS).stdout
    assert [int(number) for number in said.split()] == [LIMITS.disk_bytes, LIMITS.files + 2]


@pytest.mark.parametrize(("name", "success"), SEEN.items())
def test_the_judge_sees_what_succeeds_without_a_sandbox(
    name: str, success: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that do no harm, in the tier without isolation, and with time to import what they use."""
    lowest, alone = os.getpriority(os.PRIO_PROCESS, 0) == 19, len(os.sched_getaffinity(0)) == 1
    if (success == "priority" and lowest) or (success == "processors" and alone):
        pytest.skip("these tests have the lowest priority, or one processor, so that it changes nothing")
    monkeypatch.setattr(judge, "_SLACK_SECONDS", 1.0)  # which the one that leaves a process is waited for
    code = program(name, world.names())
    started = new_processes()
    found = judged(world, lambda: plain_subprocess.run(code, replace(LIMITS, seconds=LAST_RESORT), threading.Event()))
    for left in started():
        os.kill(left, signal.SIGKILL)
    for path in (Path(parent) / f"abuse-{world.mark}" for parent in ("/tmp", "/var/tmp", "/dev/shm", "/run")):
        path.unlink(missing_ok=True)
    assert any(what.startswith(success) for what in found), found
