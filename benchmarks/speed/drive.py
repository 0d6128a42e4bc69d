"""One contender under one load, in the interpreter of its venv; prints a line of JSON.

    PYTHON -m benchmarks.speed.drive smolagents --server http://127.0.0.1:8000 --rollouts 50

A number of rollouts run, with a limit of concurrent ones. Some warm-up rollouts precede them. Every answer is checked,
since a contender that gives up early would be fast.
"""

import argparse
import asyncio
import cProfile
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from importlib import import_module
from importlib.metadata import version
from typing import Any

from benchmarks.speed.processes import cpu_seconds, peak_bytes, resident_bytes
from benchmarks.speed.profiles import shares
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


async def measure(module: Any, work: Work, profiled: bool) -> dict[str, Any]:
    """Return the measurements; times in seconds, memory in bytes."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max(work.concurrent, 32)))  # of contenders that are not asynchronous
    async with module.rollouts(work) as rollout:
        await several(rollout, WARM_UP, min(WARM_UP, work.concurrent))
        profile = cProfile.Profile()
        stored_bytes = getattr(module, "stored_bytes", resident_bytes)
        stored, memory, cpu, start = stored_bytes(), resident_bytes(), cpu_seconds(), time.perf_counter()
        if profiled:
            profile.enable()
        seconds = await several(rollout, work.rollouts, work.concurrent)
        profile.disable()
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        return {
            "version": f"{module.DISTRIBUTION} {version(module.DISTRIBUTION)}",
            "cpu": cpu / work.rollouts,
            "rate": work.rollouts / wall,
            "p50": statistics.median(seconds),
            "memory": max(0, peak_bytes() - memory) / work.concurrent,
            "stored": (stored_bytes() - stored) / work.rollouts,
            **({"profile": shares(profile)} if profiled else {}),
        }


def arguments(work: Work) -> list[str]:
    """Return `work` as options of this command."""
    return [word for name, value in asdict(work).items() for word in (f"--{name}", str(value))]


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender")
    parser.add_argument("--profile", action="store_true", help="say also which packages take the time")
    for field in fields(Work):
        required = field.name == "server"
        parser.add_argument(f"--{field.name}", type=str if required else int, required=required, default=field.default)
    options = vars(parser.parse_args())
    module, profiled = import_module(f"benchmarks.speed.contenders.{options.pop('contender')}"), options.pop("profile")
    print(json.dumps(asyncio.run(measure(module, Work(**options), profiled))))


if __name__ == "__main__":
    main()
