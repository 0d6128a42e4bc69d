"""What a run may set of its search tools, in one value that tools can be built from and cached by."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SearchSettings:
    """Sources and cache of wikipedia_search, google_search and web_search."""

    corpus: str = "live"
    """What wikipedia_search reads (`encyclopedia.choice.encyclopedia_of`)."""
    engine: str = "auto"
    """What google_search asks (`providers.choice`)."""
    pages: Literal["answer", "passages"] = "answer"
    """What web_search returns: the model's answer from a page, or the passages themselves."""
    embeddings: str = ""
    """What ranks a page's passages: BM25 if empty, else a model's embeddings."""
    cache: str = "off"
    """`search_cache.parse_mode`."""
