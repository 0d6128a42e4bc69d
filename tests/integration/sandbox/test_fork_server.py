"""The fork server over its life: many programs at once and in a row, killed in the middle, and its host gone."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentflow.tools.python_coder import python_coder
from agentflow.tools.run import run_tool
from agentflow.tools.sandbox import execute as execution
from agentflow.tools.sandbox.execute import execute
from agentflow.tools.sandbox.limits import Limits, SandboxError
from tests.integration.sandbox.held import WAITS, waiting
from tests.processes import python
from tests.sandboxes import TIERS, descendants, executes_in, is_alive
from tests.waiting import LAST_RESORT, until, until_async

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tiers with isolation are Linux's")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The tier that `execute` uses, with a server of its own; skips where it does not work."""
    yield from executes_in(str(request.param), monkeypatch)


def idle() -> set[int]:
    """The processes of the fork server that `execute` uses, while no program runs."""
    assert execution._sandbox._server
    process = execution._sandbox._server._process
    assert process
    return {process.pid} | descendants(process.pid)


def kill(processes: set[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):  # it ended with another one
            os.kill(pid, signal.SIGKILL)


async def test_killed_in_the_middle_that_call_fails_and_the_next_works(tier: str) -> None:
    tool = python_coder()
    assert (await run_tool(tool, {"code": "print(1)"}, 60)).output == "1"
    servers = idle()
    running = asyncio.create_task(run_tool(tool, {"code": WAITS}, LAST_RESORT))
    await until_async(waiting)  # what has not begun is tried again
    kill(servers)
    with pytest.raises(SandboxError):
        await running
    assert (await run_tool(tool, {"code": "print(2)"}, 60)).output == "2"


async def test_killed_between_two_programs_nobody_notices(tier: str) -> None:
    assert (await execute("print(1)", Limits())).stdout == "1"
    killed = idle()
    kill(killed)
    await until_async(lambda: not any(is_alive(pid) for pid in killed))
    assert (await execute("print(2)", Limits())).stdout == "2"


async def test_its_programs_end_with_it(tier: str) -> None:
    await execute("print(1)", Limits())
    servers = idle()
    running = asyncio.create_task(execute(WAITS, Limits(seconds=LAST_RESORT)))
    await until_async(waiting)
    programs = waiting()
    [fork_server] = [pid for pid in servers if descendants(pid) == programs]
    os.kill(fork_server, signal.SIGKILL)
    with pytest.raises(SandboxError):
        await running
    await until_async(lambda: not any(is_alive(pid) for pid in programs))


def test_it_ends_with_its_host(tier: str, tmp_path: Path) -> None:
    """However that ends."""
    program = (
        "import asyncio, os, signal\nfrom agentflow.tools.sandbox.execute import execute\n"
        "from agentflow.tools.sandbox.limits import Limits\nfrom tests.sandboxes import descendants\n"
        "print(asyncio.run(execute('print(1)', Limits())).tier, *descendants(os.getpid()), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a host that is killed leaves an empty folder
    done = python("-c", program, env=environment)
    name, *processes = done.stdout.split()
    assert (name, done.returncode) == (tier, -signal.SIGKILL), done.stderr
    assert processes
    until(lambda: not any(is_alive(int(pid)) for pid in processes))


def test_a_host_that_forks_has_two(tier: str) -> None:
    """A server cannot be shared with a copy of its host, and the copy must not clean up after the original."""
    program = (Path(__file__).parent / "cases/forks.py.txt").read_text()
    done = python("-c", program)
    assert done.stdout.splitlines() == ["['__program__.py']"] * 4, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_thousand_runs_leak_nothing(tier: str) -> None:
    codes = ["print(7)", "import numpy\nprint(int(numpy.arange(4).sum()) + 1)", "raise SystemExit(3)", "[][0]"]
    for code in codes:
        await execute(code, Limits())

    def held() -> tuple[int, int, int]:
        fork_server = max(idle())
        resident = int(Path(f"/proc/{fork_server}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return len(os.listdir(f"/proc/{fork_server}/fd")), len(os.listdir("/proc/self/fd")), resident

    processes, before = idle(), held()
    for start in range(0, 1000, 8):
        outcomes = await asyncio.gather(*(execute(codes[(start + n) % 4], Limits(seconds=60)) for n in range(8)))
        assert [(outcome.stdout, outcome.status) for outcome in outcomes] == [("7", 0), ("7", 0), ("", 3), ("", 1)] * 2
    assert idle() == processes
    after = held()
    assert after[0] <= before[0] + 1  # the last program's report is closed a moment after it is sent
    assert after[1] <= before[1]
    assert after[2] - before[2] < 2 << 20
