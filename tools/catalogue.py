"""The standard tools by name: what a run can enable, and what each needs on this machine."""

import os
from collections.abc import Iterable
from typing import NoReturn

from langchain_core.tools import BaseTool

from agentflow.tools.base_generator import Ask, base_generator
from agentflow.tools.card import ToolCard
from agentflow.tools.encyclopedia import missing
from agentflow.tools.google_search import KEY, google_search
from agentflow.tools.python_coder import python_coder
from agentflow.tools.sandbox.execute import unavailable
from agentflow.tools.web_search import web_search
from agentflow.tools.wikipedia_search import LIVE, wikipedia_search

STANDARD_TOOLS: tuple[str, ...] = (
    "base_generator",
    "python_coder",
    "wikipedia_search",
    "google_search",
    "web_search",
)


def standard_tools(names: Iterable[str], ask: Ask, corpus: str) -> dict[str, BaseTool]:
    """The named tools. `ask` is the model behind them, `corpus` what wikipedia_search reads. Raises ValueError."""
    return {name: _build(name, ask, corpus) for name in names}


def standard_cards(names: Iterable[str]) -> dict[str, ToolCard]:
    """The cards of the named tools. Raises ValueError."""
    return {name: ToolCard.of(tool) for name, tool in standard_tools(names, _no_model, LIVE).items()}


def availability(name: str, corpus: str) -> str | None:
    """None if the tool can be used as things stand, else one line on what to do. Looks at this machine only."""
    if name not in STANDARD_TOOLS:
        return _unknown(name)
    if name == "python_coder":
        return unavailable()
    if name == "google_search" and not os.environ.get(KEY):
        return f"set {KEY} to a key from https://tavily.com"
    if name == "wikipedia_search" and corpus != LIVE:
        return missing(corpus)
    return None


def _build(name: str, ask: Ask, corpus: str) -> BaseTool:
    match name:
        case "base_generator":
            return base_generator(ask)
        case "python_coder":
            return python_coder()
        case "wikipedia_search":
            return wikipedia_search(corpus)
        case "google_search":
            return google_search()
        case "web_search":
            return web_search(ask)
    raise ValueError(_unknown(name))


def _unknown(name: str) -> str:
    return f"there is no tool '{name}'; the tools are {', '.join(STANDARD_TOOLS)}"


async def _no_model(prompt: str) -> NoReturn:
    raise RuntimeError("a tool built for its card alone has no model")
