"""The names of the agents that can be evaluated; apart from the agents, so that the command line loads none of them."""

from typing import Literal, get_args

AgentName = Literal["direct", "rag", "react", "create_agent", "team", "agentflow"]
"""direct: one call without tools. rag: one search with the question, then one call. react: one policy in a loop with
tools. create_agent: LangChain's own, with native tool calls. team: planner, assistant and critic in turn, untrained.
agentflow: AgentFlow's graph."""
AGENTS: tuple[AgentName, ...] = get_args(AgentName)
