"""Definition of a trainable app: a LangGraph graph with the names of its trained nodes, tasks, and a reward.

The trainer gets an app as `module:attribute`, as in `app=agentflow.rl.planner:atlas`. The trained nodes call
`agentflow.rl.Policy`; the rest of the graph needs no change.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from agentflow.evals.task import Task
from agentflow.evals.trace import Trace
from agentflow.rl.node_paths import node_patterns
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
    """Patterns of the trained nodes, such as `planner`, `research/agent` or `tools/*/model`; the name of a subgraph
    trains all nodes in it, and no pattern trains all (`agentflow.rl.node_paths`). All share one policy."""
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
        """Return the compiled graph."""
        return self.graph if isinstance(self.graph, CompiledStateGraph) else self.graph()


def load_app(name: str, /, **options: Any) -> Trainable:
    """Load the app that `module:attribute` names: a `Trainable`, a compiled graph, or a function that returns one.

    A graph becomes an app with the options of `agentflow.rl.agent.trainable_agent`; a function gets the options that it
    has parameters for. The module may be in the current folder. Raises AppError.
    """
    from agentflow.rl.agent import trainable_agent

    try:
        found = named_object(name)
    except NamedObjectError as error:
        raise AppError(f"the app cannot be loaded: {error}") from error
    if callable(found) and not isinstance(found, Pregel):
        named = _parameters(found)
        own = {key: value for key, value in options.items() if named is None or key in named}
        options = {key: value for key, value in options.items() if key not in own}
        try:
            found = found(**own)
        except TypeError as error:
            raise AppError(f"'{name}' does not take these options ({error})") from error
    try:
        if isinstance(found, CompiledStateGraph):
            return trainable_agent(name, found, **options)
    except TypeError as error:
        raise AppError(f"'{name}' is a graph, which takes tasks, reward, nodes and test ({error})") from error
    if not isinstance(found, Trainable):
        raise AppError(f"'{name}' is a {type(found).__name__}, neither a compiled graph nor an agentflow.Trainable")
    if "nodes" in options:
        found = replace(found, nodes=node_patterns(options.pop("nodes")))
    if options:
        raise AppError(f"'{name}' does not take these options: {', '.join(options)}")
    return found


def _parameters(function: Callable[..., Any]) -> set[str] | None:
    """Return the names of a function's parameters; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}
