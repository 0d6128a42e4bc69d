"""Apps by name: what `agentflow train`, `try` and `replay` are given as `module:attribute`."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agentflow.rl.apps.agent import app_nodes, trainable_agent
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.tools.named_object import NamedObjectError, named_object

MOVED = {
    "agentflow.rl.planner:atlas": "agentflow.rl.apps.planner:atlas",
    "agentflow.rl.benchmark:benchmark": "agentflow.rl.apps.benchmark:benchmark",
}
"""Names of before 0.2.0, which run folders have."""


def load_app(name: str, /, **options: Any) -> Trainable:
    """Load the app that `module:attribute` names: a `Trainable`, a compiled graph, or a function that returns one.

    A graph becomes an app with the options of `rl.apps.agent.trainable_agent`; a function gets the options that it has
    parameters for. The module may be in the current folder. Raises AppError.
    """
    try:
        found = named_object(name)
    except NamedObjectError as error:
        raise AppError(f"the app cannot be loaded: {error}", code="not_loaded") from error
    if callable(found) and not isinstance(found, Pregel):
        named = _parameters(found)
        own = {key: value for key, value in options.items() if named is None or key in named}
        options = {key: value for key, value in options.items() if key not in own}
        try:
            found = found(**own)
        except TypeError as error:
            raise AppError(f"'{name}' does not take these options ({error})", code="unknown_options") from error
    try:
        if isinstance(found, CompiledStateGraph):
            return trainable_agent(name, found, **options)
    except TypeError as error:
        raise AppError(
            f"'{name}' is a graph, which takes tasks, reward, nodes and test ({error})", code="graph_options"
        ) from error
    if not isinstance(found, Trainable):
        raise AppError(
            f"'{name}' is a {type(found).__name__}, neither a compiled graph nor an agentflow.Trainable", code="no_app"
        )
    found = replace(found, nodes=app_nodes(options.pop("nodes", found.nodes)))
    if options:
        raise AppError(f"'{name}' does not take these options: {', '.join(options)}", code="unknown_options")
    return found


def _parameters(function: Callable[..., Any]) -> set[str] | None:
    """Return the names of a function's parameters; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}
