"""langgraph-swarm: two agents that hand over to each other."""

from langchain.agents import create_agent
from langgraph_swarm import create_handoff_tool, create_swarm

from examples.agents.tools import add, model, multiply

adder = create_agent(
    model, [add, create_handoff_tool(agent_name="multiplier")], system_prompt="Add numbers.", name="adder"
)
multiplier = create_agent(
    model, [multiply, create_handoff_tool(agent_name="adder")], system_prompt="Multiply numbers.", name="multiplier"
)
agent = create_swarm([adder, multiplier], default_active_agent="adder").compile()
