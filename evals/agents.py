"""The agents that can be evaluated, by name: AgentFlow and its baselines."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.evals.agent_names import AgentName
from agentflow.evals.baselines import direct, react, team
from agentflow.graph import agent
from agentflow.graph.agent import Agent
from agentflow.graph.prompts import Prompted
from agentflow.nodes import analyst, executor, generator, planner, verifier


def agent_prompts(name: AgentName) -> dict[Prompted, str]:
    """Return the default system message of each module, with placeholders. A run can replace those of "agentflow"."""
    match name:
        case "direct":
            return {"planner": direct.PROMPT}
        case "react":
            return {"planner": react.PROMPT}
        case "team":
            return {"planner": team.PLANNER, "executor": team.ASSISTANT, "verifier": team.CRITIC}
        case "agentflow":
            return {
                "analyst": analyst.PROMPT,
                "planner": planner.PROMPT,
                "executor": executor.PROMPT,
                "verifier": verifier.PROMPT,
                "generator": generator.PROMPT,
            }


def agent_graph(
    name: AgentName, tools: Sequence[BaseTool | str] = (), checkpointer: BaseCheckpointSaver[Any] | None = None
) -> Agent:
    """Return the compiled graph; `tools` are available in addition to the context's, as in `agent.build_graph`.

    `checkpointer` stores the runs of "agentflow"; the baselines ignore it.
    """
    match name:
        case "direct":
            return direct.build_graph()
        case "react":
            return react.build_graph(tools)
        case "team":
            return team.build_graph(tools)
        case "agentflow":
            return agent.build_graph(tools, checkpointer=checkpointer) if tools or checkpointer else agent.graph
