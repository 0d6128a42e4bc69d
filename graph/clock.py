"""A run's clock stands still while nobody works on the run.

The deadline is a time of day, so that it survives a restart. What lies between two nodes takes milliseconds, unless the
run was taken up again: after a crash, or from an old checkpoint whose plan a person has edited. Then the deadline moves
by as long as the run lay. A call that waits for approval has its own account of that (`State.proposed_at`).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.runtime import Runtime

from agentflow.graph.state import State

SHORTEST_PAUSE = 5.0
"""Seconds; a shorter gap between two nodes is that of a busy machine, and counts."""

Node = Callable[[Any, Runtime[Any]], Awaitable[dict[str, Any]]]


def timed(node: Node) -> Node:
    """The node, which notes when it ended and takes up a run that has lain."""

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
