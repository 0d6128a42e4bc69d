"""The search engine of google_search, by its spec: `auto`, NAME or NAME:DETAIL.

    tavily | serper | gemini | gemini:MODEL | community:duckduckgo | community:google | community:searx

`auto` is the first of Tavily, Serper and Gemini whose key is in the environment at the time of the call.
"""

import re
from importlib.util import find_spec

from agentflow.tools.providers.community import WRAPPERS, Community
from agentflow.tools.providers.gemini import MODEL, Gemini
from agentflow.tools.providers.provider import SearchProvider, SearchResult, key_in
from agentflow.tools.providers.serper import Serper
from agentflow.tools.providers.tavily import Tavily
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.search_settings import ENGINES
from agentflow.version import pip_install

AUTO = "auto"
WITH_KEY: dict[str, type[Tavily | Serper | Gemini]] = {"tavily": Tavily, "serper": Serper, "gemini": Gemini}
"""Engines in the order in which `auto` looks for their keys: those without a language model first."""

_MODEL = re.compile(r"[\w.-]+", re.ASCII)


def provider_of(spec: str) -> SearchProvider:
    """Return the search engine. Raises ValueError for an unknown spec."""
    name, _, detail = spec.partition(":")
    if spec == AUTO:
        return Automatic()
    if name == "community" and detail in WRAPPERS:
        return Community(detail)
    if name == "gemini" and _MODEL.fullmatch(detail or MODEL):
        return Gemini(detail or MODEL)
    if spec in WITH_KEY:
        return WITH_KEY[spec]()
    known = ", ".join([AUTO, *ENGINES])
    raise ValueError(f"there is no search engine '{spec}': use {known}, where NAME is one of {', '.join(WRAPPERS)}")


class Automatic:
    """The first engine whose key is set."""

    async def search(self, query: str, k: int) -> SearchResult:
        """Search as `SearchProvider.search` does."""
        if found := _with_key():
            return await WITH_KEY[found]().search(query, k)
        raise ToolFailure(ErrorClass.TOOL_ERROR, f"google_search needs a key: {_remedy()}")


def state(spec: str) -> tuple[bool, str]:
    """Return whether the engine is available, with one line on which engine that is or on the remedy."""
    name, _, detail = spec.partition(":")
    try:
        provider_of(spec)
    except ValueError as error:
        return False, str(error)
    if name == AUTO:
        found = _with_key()
        return (True, f"asks {found}") if found else (False, _remedy())
    if name == "community":
        has = find_spec("langchain_community") is not None
        return (True, f"asks {detail}") if has else (False, pip_install("community"))
    engine = WITH_KEY[name]
    return (True, f"asks {spec}") if key_in(engine.keys) else (False, f"set {engine.keys[0]} ({engine.site})")


def model_of(spec: str) -> str:
    """Return the language model of the engine as results declare it (`SearchResult.declared`), or "" if it has none."""
    name, _, detail = spec.partition(":")
    engine = _with_key() if name == AUTO else name
    return SearchResult([], "gemini", detail or MODEL).declared() if engine == "gemini" else ""


def _with_key() -> str | None:
    return next((name for name, engine in WITH_KEY.items() if key_in(engine.keys)), None)


def _remedy() -> str:
    keys = [f"{engine.keys[0]} ({engine.site})" for engine in WITH_KEY.values()]
    return f"set {', '.join(keys[:-1])} or {keys[-1]}"
