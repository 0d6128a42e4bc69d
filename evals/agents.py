"""The agents that can be evaluated, by name: AgentFlow and its baselines."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.evals.agent_names import AgentName
from agentflow.evals.baselines import create_agent, direct, rag, react, team
from agentflow.graph import agent
from agentflow.graph.agent import Agent


def agent_graph(
    name: AgentName, tools: Sequence[BaseTool | str] = (), checkpointer: BaseCheckpointSaver[Any] | None = None
) -> Agent:
    """Return the compiled graph; `tools` are available in addition to the context's, as in `agent.build_graph`.

    `checkpointer` stores the runs of "agentflow"; the baselines ignore it.
    """
    match name:
        case "direct":
            return direct.build_graph()
        case "rag":
            return rag.build_graph(tools)
        case "react":
            return react.build_graph(tools)
        case "create_agent":
            return create_agent.build_graph(tools)
        case "team":
            return team.build_graph(tools)
        case "agentflow":
            return agent.build_graph(tools, checkpointer=checkpointer) if tools or checkpointer else agent.graph
