"""Baselines of the agent, as LangGraph graphs with the same state, context, tools and models.

They are a direct answer, a monolithic tool-calling loop and a static team. Tool calls are text, so that the model does
not need native tool calling.
"""
