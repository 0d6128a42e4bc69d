"""The agents that can be evaluated, by name: AgentFlow and its baselines."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.evals.agent_names import AgentName
from agentflow.evals.baselines import direct, rag, react, team
from agentflow.graph import agent
from agentflow.graph.agent import Agent
from agentflow.graph.context import Context
from agentflow.graph.models.providers import Profile
from agentflow.graph.prompts import Prompted
from agentflow.nodes import analyst, executor, generator, planner, verifier


def agent_prompts(name: AgentName, context: Context) -> dict[Prompted, str]:
    """Return the default system message of each module in a run, with placeholders.

    The `context` of a run of "agentflow" can replace them.
    """
    match name:
        case "direct":
            return {"planner": direct.PROMPT}
        case "rag":
            return {"planner": rag.PROMPT}
        case "react":
            return {"planner": react.PROMPT}
        case "team":
            return {"planner": team.PLANNER, "executor": team.ASSISTANT, "verifier": team.CRITIC}
        case "agentflow":
            texts_of: dict[Prompted, dict[Profile, str]] = {
                "analyst": analyst.PROMPTS,
                "planner": planner.PROMPTS,
                "executor": executor.PROMPTS,
                "verifier": verifier.PROMPTS,
                "generator": generator.PROMPTS,
            }
            asked = [module for module in texts_of if module != "analyst" or context.analyses]
            return {module: texts_of[module][context.profile_of(module)] for module in asked}


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
        case "team":
            return team.build_graph(tools)
        case "agentflow":
            return agent.build_graph(tools, checkpointer=checkpointer) if tools or checkpointer else agent.graph
