"""Throughput, latency and memory of concurrent rollouts: `python -m benchmarks.speed.load`.

A model call takes 100 ms, a rollout has five calls, and 256 rollouts run concurrently. The bounds are therefore 512
rollouts per second and half a second per rollout. AgentFlow's graph takes one turn, which is five model calls as well.
"""

from benchmarks.speed.catalogue import CONTENDERS, Contender
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import running
from benchmarks.speed.work import Work

CONCURRENT, DELAY, WAVES = 256, 100, 4


def measure(results: SpeedResults) -> None:
    """Return rollouts per second, median seconds, and bytes per concurrent rollout."""
    with running() as server:
        waves = 1 if results.small else WAVES
        work = Work(server, delay=DELAY, concurrent=CONCURRENT, rollouts=waves * CONCURRENT)
        for repeat in range(results.repeats):
            for contender in CONTENDERS:
                what = {"measure": "load", "name": contender.name, "label": contender.label, "role": contender.role}
                results.once(lambda one=contender: _measured(one, work), repeat=repeat, **what)  # type: ignore[misc]


def _measured(contender: Contender, work: Work) -> dict[str, object]:
    found = contender.driven(work)
    return {"values": {name: found[name] for name in ("rate", "p50", "memory")}, "version": found["version"]}


if __name__ == "__main__":
    command(measure, __doc__)
