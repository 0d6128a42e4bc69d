"""Settings of a run's search tools, in one hashable value from which tools are built and by which they are cached."""

from dataclasses import dataclass

ENGINES = ("tavily", "serper", "gemini", "gemini:MODEL", "community:NAME")
"""Search engines of google_search, as help texts list them (`providers.choice`)."""


@dataclass(frozen=True)
class SearchSettings:
    """Sources and cache of wikipedia_search, google_search and web_search."""

    corpus: str = "live"
    """Corpus of wikipedia_search (`encyclopedia.choice.encyclopedia_of`)."""
    engine: str = "auto"
    """Search engine of google_search (`providers.choice`)."""
    cache: str = "off"
    """Mode of the cache: see `search_cache.parse_mode`."""
