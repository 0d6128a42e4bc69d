"""The agents that can be evaluated, by name: AgentFlow, and what it is compared with."""

from typing import Literal, get_args

from agentflow.evals.baselines import direct, react, team
from agentflow.graph import agent
from agentflow.graph.agent import Agent

AgentName = Literal["direct", "react", "team", "agentflow"]
"""One call without tools; one policy in a loop with tools; planner, assistant and critic in turn, untrained; ours."""
AGENTS: tuple[AgentName, ...] = get_args(AgentName)


def agent_graph(name: AgentName) -> Agent:
    """The compiled graph."""
    match name:
        case "direct":
            return direct.build_graph()
        case "react":
            return react.build_graph()
        case "team":
            return team.build_graph()
        case "agentflow":
            return agent.graph
