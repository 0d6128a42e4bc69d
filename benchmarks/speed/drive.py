"""One contender under one load, in the interpreter of its venv; prints a line of JSON.

    PYTHON -m benchmarks.speed.drive openai_sdk:rollouts '{"server": "http://127.0.0.1:8000"}'

A number of rollouts run, with a limit of concurrent ones. Some warm-up rollouts precede them. Every answer is checked,
since a contender that gives up early would be fast. Memory is read from Linux's /proc.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.speed.work import ANSWER, Rollout, Work

WARM_UP = 8


class WrongAnswer(RuntimeError):
    """A contender returned a wrong answer."""


async def several(rollout: Rollout, number: int, concurrent: int) -> list[float]:
    """Return the seconds of each of several rollouts. Raises WrongAnswer."""
    left, seconds = iter(range(number)), list[float]()

    async def worker() -> None:
        for _ in left:
            start = time.perf_counter()
            answer = await rollout()
            if ANSWER not in answer:
                raise WrongAnswer(f"the answer was {answer[:80]!r}")
            seconds.append(time.perf_counter() - start)

    await asyncio.gather(*(worker() for _ in range(concurrent)))
    return seconds


async def measure(rollouts: Callable[[Work], AbstractAsyncContextManager[Rollout]], work: Work) -> dict[str, float]:
    """Return the measurements; times in seconds, memory in bytes."""
    async with rollouts(work) as rollout:
        await several(rollout, WARM_UP, min(WARM_UP, work.concurrent))
        memory, cpu, start = _memory("VmRSS"), time.process_time(), time.perf_counter()
        seconds = await several(rollout, work.rollouts, work.concurrent)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {
            "call": cpu / work.rollouts / work.calls,
            "rate": work.rollouts / wall,
            "p50": statistics.median(seconds),
            "memory": max(0, _memory("VmHWM") - memory) / work.concurrent,
        }


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    found = import_module(f"benchmarks.speed.contenders.{module}")
    values = asyncio.run(measure(getattr(found, function), Work(**json.loads(sys.argv[2]))))
    print(json.dumps({"version": f"{found.DISTRIBUTION} {version(found.DISTRIBUTION)}", "values": values}))
