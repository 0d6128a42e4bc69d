"""A deepagents agent that gives its sums to a subagent."""

from deepagents import create_deep_agent

from examples.agents.tools import add, model, multiply

agent = create_deep_agent(
    model=model,
    system_prompt="Give every sum to the calculator.",
    subagents=[
        {
            "name": "calculator",
            "description": "Works out sums.",
            "system_prompt": "Work out the sum with the tools.",
            "tools": [add, multiply],
        }
    ],
)
