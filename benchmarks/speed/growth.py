"""Growth of a rollout's cost with turns, memory, tools and concurrency: `python -m benchmarks.speed.growth`.

The cost is the CPU time of a rollout whose model takes no time; for concurrency, the model takes 100 ms, and the cost
is that of all rollouts. The measure is an exponent over the larger half of the sizes: 1 is linear. The text on the wire
is quadratic in the turns, since each prompt repeats the earlier ones.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.speed.catalogue import AGENT, PLAIN, STATE_GRAPH, Contender
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import running
from benchmarks.speed.work import Work

GROWING = (PLAIN, AGENT, STATE_GRAPH)

SIZES = {
    "turns": (1, 2, 5, 10, 20),
    "memory": (1, 10, 50, 100, 200),
    "concurrent": (1, 4, 16, 64, 256, 1024),
    "tools": (1, 5, 10, 20, 50),
}
"""Sizes of each dimension; memory in kB."""

ROLLOUTS = 50


def load(axis: str, size: int, contender: Contender) -> Callable[[Work], Work]:
    """Return the work for one size of a dimension."""
    turns = 5 if axis in ("memory", "tools") else 1
    per_turn = 3 if contender is AGENT else 1
    extra = 2 if contender is AGENT else 1
    calls = (size if axis == "turns" else turns) * per_turn + extra
    changes: dict[str, dict[str, Any]] = {
        "turns": {"memory": 400 * size},
        "memory": {"memory": 1000 * size},
        "concurrent": {"concurrent": size, "delay": 100},
        "tools": {"tools": size},
    }
    return lambda work: replace(
        work, calls=calls, rollouts=max(work.rollouts, size if axis == "concurrent" else 0), **changes[axis]
    )


def measure(results: SpeedResults) -> None:
    """Return milliseconds of CPU time by size."""
    with running() as server:
        work = Work(server, rollouts=8 if results.small else ROLLOUTS)
        for repeat in range(results.repeats):
            for axis, sizes in SIZES.items():
                for size in sizes:
                    for one in GROWING:
                        what = {"name": one.name, "label": one.label, "role": one.role, "repeat": repeat, "at": size}
                        make = partial(_measured, one, load(axis, size, one)(work))
                        results.once(make, measure=f"growth:{axis}", **what)


def _measured(contender: Contender, work: Work) -> dict[str, Any]:
    return {"values": {"cpu": 1000 * contender.driven(work)["cpu"] * work.concurrent}}


def exponent(results: SpeedResults, axis: str, name: str) -> float | None:
    """Return the slope of log cost over log size, for the larger half of the sizes; None without measurements."""
    sizes = SIZES[axis]
    low, high = sizes[len(sizes) // 2], sizes[-1]
    first, last = (results.median(f"growth:{axis}", name, "cpu", size) for size in (low, high))
    return math.log(last / first) / math.log(high / low) if first and last else None


if __name__ == "__main__":
    command(measure, __doc__)
