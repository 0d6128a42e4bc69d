"""langgraph-supervisor: one agent adds, one multiplies, and a supervisor hands work to them."""

from langchain.agents import create_agent
from langgraph_supervisor import create_supervisor

from examples.agents.tools import add, model, multiply

adder = create_agent(model, [add], system_prompt="Add numbers.", name="adder")
multiplier = create_agent(model, [multiply], system_prompt="Multiply numbers.", name="multiplier")
agent = create_supervisor(
    [adder, multiplier], model=model, prompt="Hand each step to the agent that can do it."
).compile()
