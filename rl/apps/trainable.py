"""Definition of a trainable app: a LangGraph graph with the names of its trained nodes, tasks, and a reward.

The trainer gets an app by name, as in `app=agentflow.rl.apps.planner:atlas` (`rl.apps.loading`). The policy answers the
model calls of the trained nodes; the graph needs no change.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.func import entrypoint
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from agentflow.graph.run.runner import Graph
from agentflow.graph.run.task import Task
from agentflow.rl.policy.node_paths import Nodes
from agentflow.tools.coded_error import CodedError
from agentflow.tools.named_object import NamedObjectError, error_line

Split = Literal["train", "test"]


Made = Graph | Callable[[], Any]
"""A compiled graph, or an async function or context manager that makes it for each rollout."""


class AppError(CodedError, ValueError):
    """An app cannot be trained; `str()` is one line that explains why."""


def no_faults(state: Any) -> Sequence[bool]:
    """Return no faults; the default of `Trainable.faults`."""
    return ()


@dataclass(frozen=True)
class Trainable:
    """A graph with its trained nodes, tasks and reward."""

    name: str
    graph: Made
    """The compiled graph, or a function that builds it, called once in every worker process. An async function, or one
    that returns an async context manager, is called for each rollout."""
    nodes: Nodes
    """Patterns of the trained nodes, such as `planner`, `research/agent` or `tools/*/model`; the name of a subgraph
    trains all nodes in it, and no pattern trains all (`rl.policy.node_paths`). They share one policy."""
    tasks: Callable[[Split, int], Sequence[Task]]
    """Returns the first n tasks of a split."""
    inputs: Callable[[Task], Any]
    """Returns the input of the graph for a task."""
    reward: Callable[[Task, Any], float | Awaitable[float | None] | None]
    """Returns the reward, 0 to 1, of a task and the graph's final state; None if undecided, so that the rollout is not
    trained on."""
    context: Callable[..., Any] = field(default=lambda: None)
    """Returns the `context` of the graph's invocation; a function with a parameter gets the task. None stands for the
    defaults of the graph's schema."""
    config: Callable[[Task], RunnableConfig] = lambda task: RunnableConfig(configurable={})
    """Returns LangChain's config of the graph's invocation, such as `configurable` and `recursion_limit`."""
    answer: Callable[[Task, Any], Any] | None = None
    """Returns, perhaps asynchronously, the answer to an interrupt's value; without it, an interrupt is an error."""
    rollout: Callable[[Any, Task], Awaitable[Any]] | None = None
    """Calls the graph with a task and returns its final state, in the place of `inputs`, `context` and `config`."""
    faults: Callable[[Any], Sequence[bool]] = no_faults
    """Returns whether each trained call led to a format or tool error, to which `penalty` applies; empty for none."""

    def context_of(self, task: Task | None = None) -> Any:
        """Return the `context` of a task's invocation; None without a task, if it depends on that."""
        if not inspect.signature(self.context).parameters:
            return self.context()
        return self.context(task) if task else None

    def built(self) -> Made:
        """Return the compiled graph, or what makes it for each rollout."""
        if isinstance(self.graph, Runnable) or made_anew(self.graph):
            return self.graph
        with app_errors(self.name):
            found: Graph = compiled(self.graph())
        return found


@contextmanager
def app_errors(name: str) -> Iterator[None]:
    """Raise AppError for whatever the user's code in the block raises."""
    try:
        yield
    except AppError:
        raise
    except (Exception, SystemExit) as error:  # exit() too would end the command, without a word
        said = str(error) if isinstance(error, NamedObjectError) else f"{name} cannot be made ({error_line(error)})"
        hint = "; training does not use the key, so any value will do" if "API_KEY" in said else ""
        raise AppError(f"the app cannot be loaded: {said}{hint}", code="not_loaded") from error


def made_anew(function: Any) -> bool:
    """Return whether a function makes a graph asynchronously."""
    made = inspect.unwrap(function.func if isinstance(function, partial) else function)
    return inspect.iscoroutinefunction(made) or inspect.isasyncgenfunction(made)


def compiled(found: Any) -> Any:
    """Return what a user exports as what runs: a graph is compiled. Raises AppError for what is none."""
    if isinstance(found, StateGraph):
        with app_errors("the graph"):
            return found.compile()
    if not isinstance(found, Runnable):
        raise AppError(f"a {type(found).__name__} is no graph", code="no_app")
    steps = found.steps if isinstance(found, RunnableSequence) else [found]
    return found if any(isinstance(step, Pregel) for step in steps) else _chain(found)


def _chain(found: Runnable[Any, Any]) -> Any:
    """Return a chain that has no graph as the only node of one: the policy answers the model calls of nodes."""

    @entrypoint()
    async def chain(inputs: Any) -> Any:
        return await found.ainvoke(inputs)

    return chain
