"""The agents that can be evaluated, by name: AgentFlow, and what it is compared with."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from agentflow.evals.baselines import direct, react, team
from agentflow.graph import agent
from agentflow.graph.agent import Agent
from agentflow.graph.prompts import Prompted
from agentflow.nodes import analyst, executor, generator, planner, verifier

AgentName = Literal["direct", "react", "team", "agentflow"]
"""One call without tools; one policy in a loop with tools; planner, assistant and critic in turn, untrained; ours."""
AGENTS: tuple[AgentName, ...] = get_args(AgentName)


def agent_prompts(name: AgentName) -> dict[Prompted, str]:
    """The system message of each module, before anything is put in. Those of ours may be replaced by a run's own."""
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
    """The compiled graph; `tools` are there beside those of the context, as in `agent.build_graph`.

    `checkpointer` keeps the runs of ours; those of the others are not kept.
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
