"""The encyclopedias of wikipedia_search, by name.

live              the MediaWiki API of Wikipedia
http://HOST/PATH  a retrieval server, such as Search-R1's
NAME, such as atlas, or PATH: a local index
"""

from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlsplit

from agentflow.tools.encyclopedia.encyclopedia import GROUP, Encyclopedia, LocalEncyclopedia, is_of_passages, provider
from agentflow.tools.encyclopedia.mediawiki import MediaWiki
from agentflow.tools.encyclopedia.retrieval_server import RetrievalServer

LIVE = "live"


def encyclopedia_of(corpus: str) -> Encyclopedia:
    """Return the encyclopedia of that name. A local one is opened at its first lookup."""
    if corpus == LIVE:
        return MediaWiki()
    return RetrievalServer(corpus) if is_address(corpus) else LocalEncyclopedia(corpus)


def is_local(corpus: str) -> bool:
    """Return whether the corpus is on this machine: neither live nor an address."""
    return corpus != LIVE and not is_address(corpus)


def holds_passages(corpus: str) -> bool:
    """Return whether the corpus finds passages for a question, as a retrieval server and an index of short texts do."""
    return is_address(corpus) or (is_local(corpus) and is_of_passages(corpus))


def missing(corpus: str) -> str | None:
    """Return one line on the remedy if there is no such corpus, else None. Sends no request."""
    if is_address(corpus):
        return None if urlsplit(corpus).hostname else f"'{corpus}' is no address: write http://HOST:PORT/retrieve"
    if not is_local(corpus) or provider(corpus) or Path(corpus).is_file():
        return None
    known = ", ".join([LIVE, *sorted(one.name for one in entry_points(group=GROUP))])
    return (
        f"there is no corpus '{corpus}': use {known}, http://HOST:PORT/retrieve, "
        "or the path of an index built with agentflow corpus build"
    )


def is_address(corpus: str) -> bool:
    """Return whether the corpus is the address of a server."""
    return corpus.startswith(("http://", "https://"))
