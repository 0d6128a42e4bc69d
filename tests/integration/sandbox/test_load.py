"""Many programs at once, which overlap by construction: each waits for a signal that the host sends when all run."""

import asyncio
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from agentflow.tools.sandbox import execute as execution
from agentflow.tools.sandbox import memory
from agentflow.tools.sandbox.execute import execute
from agentflow.tools.sandbox.limits import SLOTS, Limits, Outcome
from tests.cases import table
from tests.integration.sandbox.held import WAITS, await_waiting, let_go, waits
from tests.sandboxes import TIERS, executes_in, is_alive, new_processes, run, server
from tests.waiting import LAST_RESORT, until_async

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tiers with isolation are Linux's")

LIMITS = Limits(seconds=LAST_RESORT)
FAILURES = dict(table(__file__, "load.txt"))


@pytest.fixture(autouse=True)
def much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow more concurrent programs than a small machine would; these take almost no resources."""
    monkeypatch.setattr(memory, "available", lambda: math.inf)


@pytest.fixture(params=[*TIERS, "subprocess"])
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The tier that `execute` uses, with a server of its own; skips where it does not work."""
    yield from executes_in(str(request.param), monkeypatch)


async def test_as_many_as_there_are_slots_run_at_once_and_the_others_after_them(tier: str) -> None:
    await execute("print(1)", LIMITS)
    number = SLOTS + 8
    started = [asyncio.create_task(execute(WAITS.format(n=n), LIMITS)) for n in range(number)]
    for at_once in (SLOTS, 8):
        found = await asyncio.to_thread(await_waiting, at_once)
        assert len(found) == at_once
        let_go(found)
        await until_async(lambda found=found: not any(is_alive(pid) and waits(pid) for pid in found))
    outcomes = await asyncio.gather(*started)
    assert [(outcome.stdout, outcome.status) for outcome in outcomes] == [(str(n), 0) for n in range(number)]


@pytest.mark.parametrize("name", TIERS)
def test_a_program_holds_nothing_of_others(name: str) -> None:
    code = (
        "import os\ndef is_open(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True\n"
        "print([n for n in range(3, 4096) if is_open(n)])"
    )
    sandbox = server(name)
    with ThreadPoolExecutor(20) as pool:
        others: list[Future[Outcome]] = [pool.submit(run, sandbox, WAITS.format(n=n), LIMITS) for n in range(20)]
        pids = await_waiting(20)
        assert run(sandbox, code, LIMITS).stdout == "[]"
        let_go(pids)
    assert [other.result().stdout for other in others] == [str(n) for n in range(20)]


@pytest.mark.parametrize("name", TIERS)
def test_what_one_does_ends_no_other(name: str) -> None:
    sandbox = server(name)
    with ThreadPoolExecutor(SLOTS) as pool:
        others = [pool.submit(run, sandbox, WAITS.format(n=n), LIMITS) for n in range(20)]
        pids = await_waiting(20)
        limits = Limits(seconds=3, memory_bytes=1 << 28)
        for ended in [pool.submit(run, sandbox, code, limits) for code in FAILURES.values() for _ in range(2)]:
            ended.result()
        assert all(is_alive(pid) for pid in pids)
        let_go(pids)
        assert [other.result().stdout for other in others] == [str(n) for n in range(20)]


async def test_given_up_at_any_moment_none_is_left(tier: str) -> None:
    chance = random.Random(5)
    await execute("print(1)", LIMITS)
    started = new_processes()
    for _ in range(3):
        tasks = [asyncio.create_task(execute("import time\ntime.sleep(.05)\nprint(7)", LIMITS)) for _ in range(40)]
        for task in chance.sample(tasks, 25):
            await asyncio.sleep(0.001 * chance.randrange(5))
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, asyncio.CancelledError) or (
                isinstance(outcome, Outcome) and outcome.stdout == "7"
            )
    assert (await execute("print(2)", LIMITS)).stdout == "2"
    await until_async(lambda: not execution._sandbox.turns._running and not started())


def test_few_descriptors_are_enough(tier: str) -> None:
    program = (Path(__file__).parent / "cases/few_descriptors.py.txt").read_text()
    limited = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", sys.executable, "-c", program]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("name", TIERS)
def test_a_host_without_descriptors_waits_for_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others of the host may have taken them all for a moment."""
    sandbox, pipe, tries = server(name), os.pipe, 0

    def scarce() -> tuple[int, int]:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError(24, "Too many open files")
        return pipe()

    monkeypatch.setattr(os, "pipe", scarce)
    assert run(sandbox, "print(3)").stdout == "3"
