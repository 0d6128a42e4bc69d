"""The agent as `langgraph.json` serves it, traced as the server's environment asks (AGENTFLOW_TRACING)."""

from agentflow.graph.agent import graph
from agentflow.graph.tracing.switch import tracing_from_environment

__all__ = ["graph"]

tracing_from_environment()
