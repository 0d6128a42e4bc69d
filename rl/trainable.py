"""Definition of a trainable app: a LangGraph graph with the names of its trained nodes, tasks, and a reward.

The trainer gets an app as `module:attribute`, as in `app=agentflow.rl.planner:atlas`. The trained nodes call
`agentflow.rl.Policy`; the rest of the graph needs no change.
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
    """An app cannot be trained; `str()` is one line that explains why."""


def trace_of(task: Task, state: Any) -> Trace:
    """Return a trace whose answer is the final state as text; the default of `Trainable.trace`."""
    return Trace(task=task, answer=str(state), status="answered")


def no_faults(state: Any) -> Sequence[bool]:
    """Return no faults; the default of `Trainable.faults`."""
    return ()


def no_turn_rewards(task: Task, state: Any) -> Sequence[float]:
    """Return no turn rewards; the default of `Trainable.turn_rewards`."""
    return ()


@dataclass(frozen=True)
class Trainable:
    """A graph with its trained nodes, tasks and reward."""

    name: str
    graph: Graph | Callable[[], Graph]
    """The compiled graph, or a function that builds it, called once in every worker process."""
    nodes: Collection[str]
    """Names of the trained nodes; naming a subgraph trains all nodes in it. All share one policy."""
    tasks: Callable[[Split, int], Sequence[Task]]
    """Returns the first n tasks of a split."""
    inputs: Callable[[Task], Any]
    """Returns the input of the graph for a task."""
    reward: Callable[[Task, Any], float | Awaitable[float | None] | None]
    """Returns the reward, 0 to 1, of a task and the graph's final state; None if undecided, so that the rollout is not
    trained on."""
    context: Callable[[], Any] = field(default=lambda: None)
    """Returns the `context` of the graph's invocation."""
    trace: Callable[[Task, Any], Trace] = trace_of
    """Returns the trace of a rollout from its final state."""
    faults: Callable[[Any], Sequence[bool]] = no_faults
    """Returns whether each trained call led to a format or tool error, to which `penalty` applies; empty for none."""
    turn_rewards: Callable[[Task, Any], Sequence[float]] = no_turn_rewards
    """Returns the reward of each trained call, in addition to `reward`; empty for none. `algorithm=turn` credits a call
    with the rewards from that call on; the other algorithms credit the trajectory with their sum."""

    def with_reward(self, reward: Callable[[Task, Any], float | Awaitable[float | None] | None]) -> "Trainable":
        """Return a copy of the app with another reward."""
        return replace(self, reward=reward)

    def built(self) -> Graph:
        """Return the compiled graph. Raises AppError if it and its subgraphs lack a node named in `nodes`."""
        graph = self.graph if isinstance(self.graph, CompiledStateGraph) else self.graph()
        inner = [subgraph for _, subgraph in graph.get_subgraphs(recurse=True) if isinstance(subgraph, Pregel)]
        known = list(dict.fromkeys(node for one in (graph, *inner) for node in one.nodes if not node.startswith("__")))
        if unknown := [node for node in self.nodes if node not in known]:
            raise AppError(f"the graph of {self.name} has no node '{unknown[0]}'; its nodes are {', '.join(known)}")
        return graph


def load_app(name: str, /, **options: Any) -> Trainable:
    """Load the app that `module:attribute` names; if that is a function, call it with `options`.

    The module may be in the current folder. Raises AppError.
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
