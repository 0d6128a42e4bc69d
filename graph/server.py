"""The agent as `langgraph.json` serves it, with settings from clients.

`graph.studio_config` validates them, shows them in LangGraph Studio and refuses those that are not granted. A custom
graph is served in the same way: `graph = for_server(build_graph([my_tool]))`. Tracing is configured by the server's
environment (AGENTFLOW_TRACING).
"""

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.studio_config import StudioConfig
from agentflow.graph.tracing.setup import tracing_from_environment


def for_server(agent: Agent) -> Agent:
    """Return the agent for contexts that arrive over a network as mappings. A `Context` object is trusted."""
    return agent.copy({"context_schema": StudioConfig})


tracing_from_environment()

graph = for_server(build_graph())
"""Compiled without persistence, since the server provides it."""
