"""The clock of a run, which stops while nothing works on the run.

The deadline is a wall-clock time, so it survives a restart. The time between two nodes is milliseconds, unless the run
was resumed, after a crash or from an old checkpoint whose plan a person has edited. Then the deadline moves by the
length of the pause. A call that waits for approval is accounted for separately (`PendingCall.since`).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.runtime import Runtime

from agentflow.graph.state import State

SHORTEST_PAUSE = 5.0
"""Seconds. A shorter gap between two nodes is due to a busy machine, and counts towards the run's time."""

Node = Callable[[Any, Runtime[Any]], Awaitable[dict[str, Any]]]


def timed(node: Node) -> Node:
    """Return the node with recording of its end, and with the deadline moved if the run was resumed."""

    async def run(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        moved = _moved(state) if isinstance(state, State) else {}
        update = await node(state.model_copy(update=moved) if moved else state, runtime)
        return {**moved, **update, "at": time.time()}

    return run


def _moved(state: State) -> dict[str, Any]:
    pause = time.time() - state.at
    if not state.at or state.waits or pause < SHORTEST_PAUSE:
        return {}
    return {"deadline": state.deadline + pause}
