"""The standard tools. The rest of the program uses only their `ToolSpec`.

A new tool is a module and an entry in `TOOLS`. A new entry counts as a search tool by default, so that its calls are
audited and its scores flagged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NoReturn

from langchain_core.tools import BaseTool

from agentflow.tools.base_generator import Ask, base_generator
from agentflow.tools.card import ToolCard
from agentflow.tools.encyclopedia.choice import missing
from agentflow.tools.google_search import google_search
from agentflow.tools.mcp.spec import SpecError
from agentflow.tools.providers.choice import state
from agentflow.tools.python_coder import python_coder
from agentflow.tools.sandbox.execute import unavailable
from agentflow.tools.search_cache import search_cache, unusable
from agentflow.tools.search_settings import SearchSettings
from agentflow.tools.web.extraction import READERS
from agentflow.tools.web_search import web_search
from agentflow.tools.wikipedia_search import wikipedia_search
from agentflow.version import pip_install


@dataclass(frozen=True)
class ToolSpec:
    """A standard tool."""

    build: Callable[[Ask, SearchSettings], BaseTool]
    """Makes the tool from the run's model for tools and its search settings."""
    problem: Callable[[SearchSettings], str | None] = lambda search: unusable(search.cache)
    """Returns one line on why the tool is unavailable on this machine, or None."""
    searches: bool = True
    """True if it looks up content that may change over time, or that may contain a benchmark's answers."""


def _google_problem(search: SearchSettings) -> str | None:
    usable, why = state(search.engine)
    replays = search.cache.partition(":")[0] == "replay"
    return unusable(search.cache) or (None if usable or replays else why)


def _web_problem(search: SearchSettings) -> str | None:
    """Explain why web_search cannot be used, or return None."""
    missing = [name for name in READERS if find_spec(name) is None]
    if missing and search.cache.partition(":")[0] != "replay":
        return f"it needs {', '.join(missing)}; install it with: {pip_install('web')}"
    return unusable(search.cache)


TOOLS: dict[str, ToolSpec] = {
    "base_generator": ToolSpec(
        build=lambda ask, search: base_generator(ask),
        problem=lambda search: None,
        searches=False,
    ),
    "python_coder": ToolSpec(
        build=lambda ask, search: python_coder(),
        problem=lambda search: unavailable(),
        searches=False,
    ),
    "wikipedia_search": ToolSpec(
        build=lambda ask, search: wikipedia_search(search.corpus, search_cache(search.cache)),
        problem=lambda search: missing(search.corpus) or unusable(search.cache),
    ),
    "google_search": ToolSpec(
        build=lambda ask, search: google_search(search.engine, search_cache(search.cache)),
        problem=_google_problem,
    ),
    "web_search": ToolSpec(
        build=lambda ask, search: web_search(ask, cache=search_cache(search.cache)),
        problem=_web_problem,
    ),
}

STANDARD_TOOLS: tuple[str, ...] = tuple(TOOLS)
OFFLINE_TOOLS: tuple[str, ...] = tuple(name for name, spec in TOOLS.items() if not spec.searches)


def standard_tool(name: str, ask: Ask, search: SearchSettings) -> BaseTool:
    """Return the named tool. Raises SpecError or ValueError."""
    if name not in TOOLS:
        raise SpecError(_unknown(name), code="unknown_tool")
    return TOOLS[name].build(ask, search)


def standard_cards(names: Iterable[str]) -> dict[str, ToolCard]:
    """Return the cards of the named tools. Raises SpecError or ValueError."""
    return {name: ToolCard.of(standard_tool(name, _no_model, SearchSettings())) for name in names}


def availability(name: str, search: SearchSettings) -> str | None:
    """Return None if the tool is available, else one line on the remedy. Checks this machine only."""
    return TOOLS[name].problem(search) if name in TOOLS else _unknown(name)


def _unknown(name: str) -> str:
    return f"there is no tool '{name}'; the tools are {', '.join(STANDARD_TOOLS)}"


async def _no_model(prompt: str) -> NoReturn:
    raise RuntimeError("a tool built for its card alone has no model")
