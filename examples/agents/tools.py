"""LangChain's `create_agent` with two tools."""

import os

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


model = ChatOpenAI(model="gpt-4o-mini", api_key=os.environ.get("OPENAI_API_KEY", "none"), max_tokens=256)
agent = create_agent(model, [add, multiply], system_prompt="Use the tools to work out the result.")
