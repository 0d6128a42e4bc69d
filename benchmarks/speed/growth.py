"""How a rollout's cost grows with its turns, memory and tools, and with others: `python -m benchmarks.speed.growth`.

The cost is a rollout's processor time, with a model that takes no time; where it takes 100 ms and rollouts are
concurrent, that of all of them. It is told by an exponent over the larger half of the sizes: 1 is linear, and below 1
better. The text on the wire is quadratic in the turns by itself, since each prompt repeats those before.
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
"""What grows; memory in kB."""

ROLLOUTS = 50


def load(axis: str, size: int, contender: Contender) -> Callable[[Work], Work]:
    """What one size of what grows makes of the work."""
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
    """Milliseconds of the processor, by size."""
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
    """Of cost over the larger half of the sizes: the slope of their logarithms. None where nothing was measured."""
    sizes = SIZES[axis]
    low, high = sizes[len(sizes) // 2], sizes[-1]
    first, last = (results.median(f"growth:{axis}", name, "cpu", size) for size in (low, high))
    return math.log(last / first) / math.log(high / low) if first and last else None


if __name__ == "__main__":
    command(measure, __doc__)
