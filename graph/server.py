"""The agent as `langgraph.json` serves it: its settings come from clients.

`graph.studio_config` reads them, shows them in LangGraph Studio and refuses what is not granted. A graph of your own is
served in the same way: `graph = served(build_graph([my_tool]))`. Runs are traced as the server's environment asks
(AGENTFLOW_TRACING).
"""

from agentflow.graph.agent import Agent, build_graph
from agentflow.graph.studio_config import StudioConfig
from agentflow.graph.tracing.setup import tracing_from_environment


def served(agent: Agent) -> Agent:
    """The same agent for contexts that come over a network, as mappings; a `Context` object is somebody's own."""
    return agent.copy({"context_schema": StudioConfig})


tracing_from_environment()

graph = served(build_graph())
"""Compiled without persistence: the server brings its own."""
