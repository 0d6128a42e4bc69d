"""A node of yours in place of one of ours.

A custom node is a function of the state and of LangGraph's runtime, async or not; one that is not runs in a thread. It
returns an update of the state, as every LangGraph node does. What the rest of the graph relies on is checked where the
node returns, so that a mistake names the node and the field rather than whichever node reads it next:

    analyst    all that `agentflow.nodes.analyst.begin` returns, which starts a run afresh; `analysis` is its own part
    planner    plan: a Plan. Its `error` and `problem` say that it is none; the executor then runs nothing
    executor   action: an Action, or None while `proposed` waits for a person
    verifier   what `agentflow.nodes.verifier.close` makes of its Verdict: memory, with the finished turn, and status
    generator  answer: a str, and messages: what a chat shows
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import ValidationError

from agentflow.graph.context import Context
from agentflow.graph.state import State

Update = Mapping[str, Any]
CustomNode = Callable[[Any, Runtime[Context]], Awaitable[Update] | Update]
"""From the state, a `State` (the analyst's holds `messages` alone), and the runtime to an update of the state."""

MUST_RETURN: dict[str, tuple[str, ...]] = {
    "analyst": ("question", "memory", "status", "deadline"),
    "planner": ("plan",),
    "executor": ("action",),
    "verifier": ("memory", "status"),
    "generator": ("answer", "messages"),
}
"""By node, in the order of a run: the fields without which the graph cannot go on."""


def checked_nodes(nodes: Mapping[str, CustomNode]) -> dict[str, Callable[[Any, Runtime[Context]], Awaitable[Any]]]:
    """The nodes as the graph runs them: async, their updates checked.

    Raises:
        ValueError: A name that no node of ours has, or what cannot be called.
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
    """What the node returned, its values as the state's types. Raises LangGraph's InvalidUpdateError."""
    if problem := "; ".join(_problems(name, update)):
        raise InvalidUpdateError(f"the node '{name}' {problem}")
    given = dict(update)  # type: ignore[call-overload]
    # LangGraph reads these by rules of its own: messages in many forms, and values that replace a list.
    free = {key for key, value in given.items() if key == "messages" or isinstance(value, Overwrite)}
    try:
        read = State.model_validate({key: value for key, value in given.items() if key not in free})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidUpdateError(f"the node '{name}' returned a wrong {field}: {first['msg']}") from error
    return {key: value if key in free else getattr(read, key) for key, value in given.items()}


def _problems(name: str, update: object) -> Iterator[str]:
    if not isinstance(update, Mapping):
        yield f"must return an update of the state as a dict, not {type(update).__name__}"
        return
    if missing := [field for field in MUST_RETURN[name] if field not in update]:
        yield f"must return {', '.join(MUST_RETURN[name])}; it left out {', '.join(missing)}"
    if unknown := [str(field) for field in update if field not in State.model_fields]:
        yield f"returned {', '.join(unknown)}, which is no part of the state"
