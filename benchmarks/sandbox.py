"""Measure python_coder's sandbox, alone and under load: `python -m benchmarks.sandbox [TIER ...]`.

By default, every tier that works is measured.

Ratios to a bare fork (fork, exit and wait of a process as small as the fork server) do not depend on the machine's
speed or load. Absolute figures are only meaningful on an idle machine. The process first pins itself to two cores,
for which the goals are set.
"""

import argparse
import asyncio
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentflow.tools.sandbox import plain_subprocess, tiers
from agentflow.tools.sandbox.fork_client import ForkServerClient
from agentflow.tools.sandbox.limits import Limits, Outcome, SandboxError

PROGRAMS = {
    "print": "print(6 * 7)",
    "numpy": "import numpy as np\nprint(int(np.arange(10).sum()))",
    "sympy": "from sympy import symbols, solve\nx = symbols('x')\nprint(solve(x**2 - 5*x + 6, x))",
}
OVERLAPPING = {
    "5 ms": "import time\nopen('n', 'w').write('{n}')\ntime.sleep(.005)\nprint(open('n').read())",
    "0.3 s": "import time\nopen('n', 'w').write('{n}')\ntime.sleep(.3)\nprint(open('n').read())",
    "numpy": "import numpy\nprint(int(numpy.full(3, {n}).sum()) // 3)",
}
"""Programs that each print their own number."""
AT_ONCE = (1, 24, 32, 64, 128, 256)
GOALS_MS = {"print": 12.0, "numpy": 15.0}
"""Goals for p50 after warm-up on an idle machine, in milliseconds."""
GOAL_PER_SECOND = 150.0
CORES = 2
BATCHES = 5
_LIMITS = Limits(seconds=60)

Run = Callable[[str], Outcome]


def milliseconds(what: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the p50 and the minimum time of `what`, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        what()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), min(times)


def bare_fork() -> None:
    """Fork and wait for a process that exits at once: the minimum cost of running a program in its own process."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def per_second(run: Run, count: int, at_a_time: int = 4) -> float:
    """Return executions of `print` per second, with `at_a_time` concurrent ones."""

    async def all_of_them() -> None:
        slots = asyncio.Semaphore(at_a_time)

        async def one() -> None:
            async with slots:
                await asyncio.to_thread(run, PROGRAMS["print"])

        await asyncio.gather(*(one() for _ in range(count)))

    start = time.perf_counter()
    asyncio.run(all_of_them())
    return count / (time.perf_counter() - start)


def report(name: str, run: Run, fork: tuple[float, float], repeats: int) -> None:
    """Print one line per measurement of a tier."""
    for what, code in PROGRAMS.items():
        outcome = run(code)  # warm-up: the first run imports
        if outcome.status:
            print(f"{name:20} {what:8} {outcome.stderr}")
            continue
        p50, best = milliseconds(partial(run, code), repeats)
        ratios = f"{p50 / fork[0]:5.1f} and {best / fork[1]:5.1f} bare forks"
        goal = f"; goal: p50 {GOALS_MS[what]:g} ms" if what in GOALS_MS else ""
        print(f"{name:20} {what:8} p50 {p50:7.1f} ms, best {best:7.1f} ms = {ratios}{goal}")
    rate = max(per_second(run, repeats) for _ in range(BATCHES))
    print(f"{name:20} {'rate':8} {rate:7.0f}/s, best of {BATCHES} batches; goal: {GOAL_PER_SECOND:g}/s")


def report_load(name: str, run: Run, rounds: int) -> int:
    """Print the failures and the rate per second, a line per kind of program and level of concurrency.

    Return the number of failures.
    """
    failures = 0
    for what, code in OVERLAPPING.items():
        for number in AT_ONCE:
            wrong, start = 0, time.perf_counter()
            with ThreadPoolExecutor(number) as pool:
                for _ in range(rounds):
                    ran = pool.map(lambda n, code=code: _printed(run, code.replace("{n}", str(n))), range(number))
                    wrong += sum(printed != str(n) for n, printed in enumerate(ran))
            failures += wrong
            rate = rounds * number / (time.perf_counter() - start)
            print(f"{name:20} {what:8} {number:3} at once: {wrong} of {rounds * number} failed, {rate:6.1f}/s")
    return failures


def _printed(run: Run, code: str) -> str:
    try:
        return run(code).stdout
    except SandboxError as error:
        return str(error)


def main() -> int:
    """Measure the requested tiers and print the results; return the exit status, 1 if a program under load failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=", ".join(tiers.DESCRIPTIONS))
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10, help="of each number at once")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CORES]))
    fork = milliseconds(bare_fork, arguments.repeats)
    print(
        f"{'bare fork':29} p50 {fork[0]:7.1f} ms, best {fork[1]:7.1f} ms; load of the machine {os.getloadavg()[0]:.1f}"
    )
    never = threading.Event()
    failures = 0
    for name in arguments.tiers or tiers.DESCRIPTIONS:
        if name == tiers.SUBPROCESS:
            alone = partial(plain_subprocess.run, limits=_LIMITS, cancelled=never)
            report(name, alone, fork, arguments.repeats // 4)
            failures += report_load(name, alone, arguments.rounds)
            continue
        try:
            server = ForkServerClient(name)
        except SandboxError as error:
            print(f"{name:20} not here: {error}")
            continue
        served = partial(server.run, limits=_LIMITS, cancelled=never)
        report(name, served, fork, arguments.repeats)
        failures += report_load(name, served, arguments.rounds)
        server.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
