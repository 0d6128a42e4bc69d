"""The standard tools by name: what a run can enable, and what each needs on this machine."""

from collections.abc import Iterable
from typing import NoReturn

from langchain_core.embeddings import Embeddings
from langchain_core.tools import BaseTool

from agentflow.tools.base_generator import Ask, base_generator
from agentflow.tools.card import ToolCard
from agentflow.tools.encyclopedia.choice import missing
from agentflow.tools.google_search import google_search
from agentflow.tools.providers.choice import state
from agentflow.tools.python_coder import python_coder
from agentflow.tools.sandbox.execute import unavailable
from agentflow.tools.search_cache import search_cache, unusable
from agentflow.tools.search_settings import SearchSettings
from agentflow.tools.web_search import web_search
from agentflow.tools.wikipedia_search import wikipedia_search

STANDARD_TOOLS: tuple[str, ...] = (
    "base_generator",
    "python_coder",
    "wikipedia_search",
    "google_search",
    "web_search",
)

OFFLINE_TOOLS: tuple[str, ...] = ("base_generator", "python_coder")
"""Those that look nothing up."""


def standard_tools(
    names: Iterable[str], ask: Ask, search: SearchSettings, embeddings: Embeddings | None = None
) -> dict[str, BaseTool]:
    """The named tools. `ask` is the model behind them, `embeddings` ranks passages. Raises ValueError."""
    return {name: _build(name, ask, search, embeddings) for name in names}


def standard_cards(names: Iterable[str]) -> dict[str, ToolCard]:
    """The cards of the named tools. Raises ValueError."""
    return {name: ToolCard.of(tool) for name, tool in standard_tools(names, _no_model, SearchSettings()).items()}


def availability(name: str, search: SearchSettings) -> str | None:
    """None if the tool can be used as things stand, else one line on what to do. Looks at this machine only."""
    replays = search.cache.partition(":")[0] == "replay"
    match name:
        case "base_generator":
            return None
        case "python_coder":
            return unavailable()
        case "wikipedia_search":
            return missing(search.corpus) or unusable(search.cache)
        case "google_search":
            usable, says = state(search.engine)
            return unusable(search.cache) or (None if usable or replays else says)
        case "web_search":
            return unusable(search.cache)
    return _unknown(name)


def _build(name: str, ask: Ask, search: SearchSettings, embeddings: Embeddings | None) -> BaseTool:
    cache = search_cache(search.cache)
    match name:
        case "base_generator":
            return base_generator(ask)
        case "python_coder":
            return python_coder()
        case "wikipedia_search":
            return wikipedia_search(search.corpus, cache)
        case "google_search":
            return google_search(search.engine, cache)
        case "web_search":
            return web_search(ask, returns=search.pages, embeddings=embeddings, cache=cache)
    raise ValueError(_unknown(name))


def _unknown(name: str) -> str:
    return f"there is no tool '{name}'; the tools are {', '.join(STANDARD_TOOLS)}"


async def _no_model(prompt: str) -> NoReturn:
    raise RuntimeError("a tool built for its card alone has no model")
