"""AgentFlow: a trainable Planner-Executor-Verifier-Generator agent on LangGraph.

The public API is the names below. They are loaded on first use, so that `import agentflow` stays cheap and
pulls in neither LangGraph's runtime nor a model library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentflow.evals.benchmarks.selection import Selection
    from agentflow.evals.evaluate import Results, aevaluate, evaluate
    from agentflow.evals.record import Record
    from agentflow.graph.agent import build_graph
    from agentflow.graph.as_tool import build_tool
    from agentflow.graph.checkpoints import CheckpointError, open_checkpointer
    from agentflow.graph.context import Context, Sampling
    from agentflow.graph.middleware import PlannerVerifierMiddleware, VerifierMiddleware
    from agentflow.graph.models.loading import load_model
    from agentflow.graph.models.spec import ModelError
    from agentflow.graph.run.cost import Budget, Price
    from agentflow.graph.run.task import Task
    from agentflow.graph.run.trace import Trace
    from agentflow.graph.state import State, Turn, Verdict
    from agentflow.graph.tracing.setup import TracingError, tracing
    from agentflow.rl.apps.trainable import Trainable
    from agentflow.rl.policy.policy import Policy
    from agentflow.rl.rollout.capture import policy_url
    from agentflow.rl.train import train
    from agentflow.tools.card import ToolCard
    from agentflow.tools.result import ErrorClass, ToolResult
    from agentflow.version import __version__ as __version__

_NAMES = {
    "agentflow.evals.benchmarks.selection": "Selection",
    "agentflow.evals.evaluate": "aevaluate evaluate Results",
    "agentflow.evals.record": "Record",
    "agentflow.graph.agent": "build_graph",
    "agentflow.graph.as_tool": "build_tool",
    "agentflow.graph.checkpoints": "CheckpointError open_checkpointer",
    "agentflow.graph.context": "Context Sampling",
    "agentflow.graph.middleware": "PlannerVerifierMiddleware VerifierMiddleware",
    "agentflow.graph.models.loading": "load_model",
    "agentflow.graph.models.spec": "ModelError",
    "agentflow.graph.run.cost": "Budget Price",
    "agentflow.graph.run.task": "Task",
    "agentflow.graph.run.trace": "Trace",
    "agentflow.graph.state": "State Turn Verdict",
    "agentflow.graph.tracing.setup": "TracingError tracing",
    "agentflow.rl.apps.trainable": "Trainable",
    "agentflow.rl.policy.policy": "Policy",
    "agentflow.rl.rollout.capture": "policy_url",
    "agentflow.rl.train": "train",
    "agentflow.tools.card": "ToolCard",
    "agentflow.tools.result": "ErrorClass ToolResult",
    "agentflow.version": "__version__",
}
"""The modules of the public API, with its names in them."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Budget",
    "CheckpointError",
    "Context",
    "ErrorClass",
    "ModelError",
    "PlannerVerifierMiddleware",
    "Policy",
    "Price",
    "Record",
    "Results",
    "Sampling",
    "Selection",
    "State",
    "Task",
    "ToolCard",
    "ToolResult",
    "Trace",
    "TracingError",
    "Trainable",
    "Turn",
    "Verdict",
    "VerifierMiddleware",
    "aevaluate",
    "build_graph",
    "build_tool",
    "evaluate",
    "load_model",
    "open_checkpointer",
    "policy_url",
    "tracing",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agentflow' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if name != "train":
            raise
        from agentflow.version import pip_install

        raise ImportError(f"agentflow.train needs {error.name}; install it with: {pip_install('train')}") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
