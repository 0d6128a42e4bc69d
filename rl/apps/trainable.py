"""Definition of a trainable app: a LangGraph graph with the names of its trained nodes, tasks, and a reward.

The trainer gets an app by name, as in `app=agentflow.rl.apps.planner:atlas` (`rl.apps.loading`). The policy answers the
model calls of the trained nodes; the graph needs no change.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph

from agentflow.graph.run.runner import Graph
from agentflow.graph.run.task import Task
from agentflow.rl.policy.node_paths import Nodes
from agentflow.tools.coded_error import CodedError

Split = Literal["train", "test"]


class AppError(CodedError, ValueError):
    """An app cannot be trained; `str()` is one line that explains why."""


def no_faults(state: Any) -> Sequence[bool]:
    """Return no faults; the default of `Trainable.faults`."""
    return ()


@dataclass(frozen=True)
class Trainable:
    """A graph with its trained nodes, tasks and reward."""

    name: str
    graph: Graph | Callable[[], Graph]
    """The compiled graph, or a function that builds it, called once in every worker process."""
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
    context: Callable[[], Any] = field(default=lambda: None)
    """Returns the `context` of the graph's invocation."""
    faults: Callable[[Any], Sequence[bool]] = no_faults
    """Returns whether each trained call led to a format or tool error, to which `penalty` applies; empty for none."""
    turn_rewards: Callable[[Task, Any], Sequence[float]] = lambda task, state: ()
    """Returns the reward of each trained call, in addition to `reward`; empty for none. `algorithm=turn` credits a call
    with the rewards from that call on; the other algorithms credit the trajectory with their sum."""

    def with_reward(self, reward: Callable[[Task, Any], float | Awaitable[float | None] | None]) -> "Trainable":
        """Return a copy of the app with another reward."""
        return replace(self, reward=reward)

    def built(self) -> Graph:
        """Return the compiled graph."""
        return self.graph if isinstance(self.graph, CompiledStateGraph) else self.graph()
