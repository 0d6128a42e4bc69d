"""Apps by name: what `agentflow train`, `try` and `replay` are given as `module:attribute`."""

import inspect
from dataclasses import replace
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph

from agentflow.rl.apps.agent import run_config, trainable_agent
from agentflow.rl.apps.trainable import AppError, Trainable, app_errors, compiled, made_anew
from agentflow.rl.policy.node_paths import node_patterns
from agentflow.tools.json_codec import object_from_json
from agentflow.tools.named_object import named_object
from agentflow.tools.proxies import without_proxy

SERVED = Path("langgraph.json")
"""The file in which LangGraph's server finds graphs, in the current folder."""


def served_graphs() -> dict[str, Any]:
    """Return the graphs of langgraph.json by name."""
    try:
        found = (object_from_json(SERVED.read_text("utf-8")) or {}).get("graphs")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def full_name(name: str) -> str:
    """Return the name by which every process loads an app, also one of langgraph.json's."""
    served = served_graphs().get(name)
    found = str((served.get("path") if isinstance(served, dict) else served) or name)
    return str(Path(found).absolute()) if ".py:" in found else found


def load_app(name: str, /, **options: Any) -> Trainable:
    """Load an app: a `Trainable`, a graph, another LangChain runnable, or a function that returns one.

    `name` is `module:attribute`, `path/file.py:attribute` or a name in langgraph.json. A graph becomes an app with the
    options of `rl.apps.agent.trainable_agent`; a function gets the options that it has parameters for, and `config` as
    LangGraph's server gives it. The module may be in the current folder. Raises AppError.
    """
    without_proxy()  # before the app makes its clients, which are to reach the policy
    with app_errors(name):
        found = named_object(full_name(name))
    of_run: dict[str, Any] = {}
    if callable(found) and not isinstance(found, Runnable):
        known = inspect.signature(found).parameters
        takes_any = any(parameter.kind == Parameter.VAR_KEYWORD for parameter in known.values())
        own = {key: value for key, value in options.items() if takes_any or key in known}
        options = {key: value for key, value in options.items() if key not in own}
        if "config" in known and ("config" in own or known["config"].default is Parameter.empty):
            own["config"] = of_run["config"] = run_config(own.get("config") or {})
        with app_errors(name):
            found = partial(found, **own) if made_anew(found) else found(**own)
    try:
        if isinstance(found, Runnable | StateGraph | partial):
            made = found if isinstance(found, partial) else compiled(found)
            return trainable_agent(name, made, **options, **of_run)
    except TypeError as error:
        raise AppError(
            f"'{name}' is a graph, which does not take these options ({error})", code="graph_options"
        ) from error
    if not isinstance(found, Trainable):
        raise AppError(
            f"'{name}' is a {type(found).__name__}, neither a graph nor an agentflow.Trainable", code="no_app"
        )
    tasks = app_errors(f"the tasks of {found.name}")(found.tasks)
    found = replace(found, nodes=node_patterns(options.pop("nodes", found.nodes)), tasks=tasks)
    if options:
        raise AppError(f"'{name}' does not take these options: {', '.join(options)}", code="unknown_options")
    return found
