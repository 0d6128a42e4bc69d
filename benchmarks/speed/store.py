"""Memory of a captured model call of 320 tokens: `python -m benchmarks.speed.store`.

256 tokens in, 64 out with log-probabilities. Ours and Agent Lightning's server keep them in memory, rLLM's gateway in
SQLite. The floor is 8 bytes per token: 4 for its id, 4 for its log-probability.
"""

from benchmarks.speed.catalogue import KEPT, LIGHTNING, RLLM, Contender
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import PROMPT, REPLY, running
from benchmarks.speed.work import Work


def measure(results: SpeedResults) -> None:
    """Return bytes per call and per token."""
    with running() as server:
        work = Work(server, rollouts=40 if results.small else 400)
        for repeat in range(results.repeats):
            for one in (KEPT, RLLM, LIGHTNING):
                what = {"measure": "store", "name": one.name, "label": one.label, "role": one.role, "repeat": repeat}
                results.once(lambda one=one: _measured(one, work), **what)  # type: ignore[misc]


def _measured(contender: Contender, work: Work) -> dict[str, object]:
    found = contender.driven(work)
    call = found["stored"] / work.calls
    return {"values": {"call": call, "token": call / (PROMPT + REPLY)}, "version": found["version"]}


if __name__ == "__main__":
    command(measure, __doc__)
