"""Custom nodes, which replace built-in ones.

A custom node is a function of the state and of LangGraph's runtime, async or not. A sync one runs in a thread. It
returns an update of the state, as every LangGraph node does. The fields that the rest of the graph relies on are
checked when the node returns, so that an error names this node and the field, not the node that reads it next:

    analyst    all that `agentflow.nodes.analyst.begin` returns, which resets the run; and `analysis`
    planner    plan: a Plan. If its `error` and `problem` are set, the plan is invalid and the executor runs nothing
    executor   action: an Action, or None while `pending_call` waits for a person
    verifier   the result of `agentflow.nodes.verifier.close` for its Verdict: memory (the finished turn) and status
    generator  answer: a str, and messages: the messages for a chat
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import ValidationError

from agentflow.graph.context import Context
from agentflow.graph.state import State

Update = Mapping[str, Any]
CustomNode = Callable[[Any, Runtime[Context]], Awaitable[Update] | Update]
"""Maps the state, a `State` (for the analyst, only `messages`), and the runtime to an update of the state."""

MUST_RETURN: dict[str, tuple[str, ...]] = {
    "analyst": ("question", "memory", "status", "deadline"),
    "planner": ("plan",),
    "executor": ("action",),
    "verifier": ("memory", "status"),
    "generator": ("answer", "messages"),
}
"""Required fields by node, in the order of a run."""


def checked_nodes(nodes: Mapping[str, CustomNode]) -> dict[str, Callable[[Any, Runtime[Context]], Awaitable[Any]]]:
    """Return the nodes as the graph runs them: async, with checks of their updates.

    Raises ValueError if a name is not that of a built-in node, or a node is not callable.
    """
    for name, node in nodes.items():
        if name not in MUST_RETURN:
            raise ValueError(f"there is no node '{name}' to replace; the nodes are {', '.join(MUST_RETURN)}")
        if not callable(node):
            raise ValueError(f"the node '{name}' must be a function of state and runtime, not {type(node).__name__}")
    return {name: _checked(name, node) for name, node in nodes.items()}


def _checked(name: str, node: CustomNode) -> Callable[[Any, Runtime[Context]], Awaitable[Any]]:
    call = node if inspect.isroutine(node) else type(node).__call__
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(node)

    async def run(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        update = node(state, runtime) if is_async else await asyncio.to_thread(node, state, runtime)
        return checked_update(name, await update if inspect.isawaitable(update) else update)

    run.__name__ = name
    return run


def checked_update(name: str, update: object) -> dict[str, Any]:
    """Return the node's update with values of the state's types. Raises LangGraph's InvalidUpdateError."""
    if not isinstance(update, Mapping):
        raise InvalidUpdateError(f"the node '{name}' must return a dict, not {type(update).__name__}")
    if missing := [field for field in MUST_RETURN[name] if field not in update]:
        raise InvalidUpdateError(f"the node '{name}' must return {', '.join(missing)} too")
    if unknown := [str(field) for field in update if field not in State.model_fields]:
        raise InvalidUpdateError(f"the node '{name}' returned {', '.join(unknown)}, which is no part of the state")
    # LangGraph interprets these itself: messages in many forms, and values that replace a list.
    free = {key: value for key, value in update.items() if key == "messages" or isinstance(value, Overwrite)}
    try:
        read = State.model_validate({key: value for key, value in update.items() if key not in free})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidUpdateError(f"the node '{name}' returned a wrong {field}: {first['msg']}") from error
    return {key: free[key] if key in free else getattr(read, key) for key in update}
