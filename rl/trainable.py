"""What can be trained: any LangGraph graph, with the names of the nodes that learn, tasks, and a reward.

An app is named to the trainer as `module:attribute`, as in `app=agentflow.rl.planner:atlas`. The nodes that learn call
`agentflow.rl.Policy`; everything else in the graph stays as it is.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agentflow.evals.task import Task
from agentflow.evals.trace import Trace
from agentflow.tools.named_object import NamedObjectError, named_object

Split = Literal["train", "test"]
Graph = CompiledStateGraph[Any, Any, Any, Any]


class AppError(ValueError):
    """An app cannot be trained as it is; `str()` is one line that says why."""


def trace_of(task: Task, state: Any) -> Trace:
    """The default record of a rollout: the final state as text."""
    return Trace(task=task, answer=str(state), status="answered")


def no_faults(state: Any) -> Sequence[bool]:
    """The default of `Trainable.faults`."""
    return ()


def no_turn_rewards(task: Task, state: Any) -> Sequence[float]:
    """The default of `Trainable.turn_rewards`."""
    return ()


@dataclass(frozen=True)
class Trainable:
    """A graph and what it is to learn."""

    name: str
    graph: Graph | Callable[[], Graph]
    """Compiled, or what builds it; built once in every worker process."""
    nodes: Collection[str]
    """The nodes that learn; of a node that is a graph, all nodes in it. Several share one policy."""
    tasks: Callable[[Split, int], Sequence[Task]]
    """The first so many tasks of a split."""
    inputs: Callable[[Task], Any]
    """What the graph is invoked with."""
    reward: Callable[[Task, Any], float | Awaitable[float | None] | None]
    """Of a task and the graph's final state, 0 to 1. None: cannot be told, so the rollout is not trained on."""
    context: Callable[[], Any] = field(default=lambda: None)
    """What the graph gets as `context`."""
    trace: Callable[[Task, Any], Trace] = trace_of
    """The record of a rollout, from its final state."""
    faults: Callable[[Any], Sequence[bool]] = no_faults
    """Whether each trained call led to a format or tool error, to which `penalty` applies; empty for none of them."""
    turn_rewards: Callable[[Task, Any], Sequence[float]] = no_turn_rewards
    """The reward of each trained call by itself, beside `reward`; empty for none. `algorithm=turn` credits a call with
    the rewards from it on, the others credit the trajectory with their sum."""

    def with_reward(self, reward: Callable[[Task, Any], float | Awaitable[float | None] | None]) -> "Trainable":
        """The same app with another reward."""
        return replace(self, reward=reward)

    def built(self) -> Graph:
        """The compiled graph. Raises AppError when a name in `nodes` is none of its nodes or of its subgraphs'."""
        graph = self.graph if isinstance(self.graph, CompiledStateGraph) else self.graph()
        inner = [subgraph for _, subgraph in graph.get_subgraphs(recurse=True) if isinstance(subgraph, Pregel)]
        known = list(dict.fromkeys(node for one in (graph, *inner) for node in one.nodes if not node.startswith("__")))
        if unknown := [node for node in self.nodes if node not in known]:
            raise AppError(f"the graph of {self.name} has no node '{unknown[0]}'; its nodes are {', '.join(known)}")
        return graph


def load_app(name: str, /, **options: Any) -> Trainable:
    """The app that `module:attribute` names, or that a function of that name returns for `options`.

    The module may lie in the current folder. Raises AppError.
    """
    try:
        found = named_object(name)
    except NamedObjectError as error:
        raise AppError(f"the app cannot be loaded: {error}") from error
    if options and not callable(found):
        raise AppError(f"'{name}' takes no options, and these are given: {', '.join(options)}")
    try:
        app = found(**options) if callable(found) else found
    except TypeError as error:
        raise AppError(f"'{name}' does not take these options ({error})") from error
    if not isinstance(app, Trainable):
        raise AppError(f"'{name}' is a {type(app).__name__}, not an agentflow.rl.trainable.Trainable")
    return app
