"""What the agent is compared with, as LangGraph graphs over the same state, context, tools and models: a direct answer,
a monolithic tool-calling loop, and a static team. None needs a model that calls tools natively: calls are text."""
