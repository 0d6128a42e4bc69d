"""CPU time of an agent's turn with a model that takes no time: `python -m benchmarks.speed.turn`.

A turn is a model call and a tool call. In AgentFlow's graph it is planner, executor and verifier: three model calls and
a tool call, so the time per model call is reported too. Rollouts run one at a time. Ours captures ids and
log-probabilities of every call, and a profile of a separate run shows its time by package.
"""

from dataclasses import replace
from typing import Any

from benchmarks.speed.catalogue import AGENT, CONTENDERS, ENDPOINT, Contender
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults
from benchmarks.speed.server import running
from benchmarks.speed.work import Work

TURNS = 5
"""Turns of a rollout of AgentFlow's graph."""
CALLS = 5
"""Model calls of a rollout of any other contender, a turn each."""


def measure(results: SpeedResults) -> None:
    """Return milliseconds per turn and per call, by contender."""
    with running() as server:
        work = Work(server, calls=CALLS, rollouts=20 if results.small else 200)
        for repeat in range(results.repeats):
            for contender in CONTENDERS:
                what = {"measure": "turn", "name": contender.name, "label": contender.label, "role": contender.role}
                results.once(lambda one=contender: _measured(one, work), repeat=repeat, **what)  # type: ignore[misc]


def _measured(contender: Contender, work: Work) -> dict[str, Any]:
    own = contender in (AGENT, ENDPOINT)
    turns, calls = (TURNS, 3 * TURNS + 2) if own else (CALLS, CALLS)
    work = replace(work, calls=calls)
    found = contender.driven(work)
    values = {"turn": 1000 * found["cpu"] / turns, "call": 1000 * found["cpu"] / calls}
    profile = contender.driven(work, "--profile")["profile"] if contender.role == "ours" else {}
    return {"values": values, "version": found["version"], "profile": profile}


if __name__ == "__main__":
    command(measure, __doc__)
