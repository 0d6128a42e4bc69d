"""The tools: LangChain `BaseTool`s with a card for the planner, and the catalogue that lists them."""
