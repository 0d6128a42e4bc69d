"""What the settings of a far client may reach: only servers and files that the operator of this machine granted.

A model spec names a URL to which the operator's key is sent; a corpus, a search cache and a checkpoint are files that
are read or written. In Python and on the command line they are the user's own. Where a context comes over a network
(`graph.server`), one that is not granted is refused:

AGENTFLOW_ENDPOINTS   base URLs, with commas; what lies below one is granted with it
AGENTFLOW_FILES       files and folders, with commas

Free are what has a name of its own: the providers' own addresses, the checkpoints and corpora that are installed.
Foreign tools have a grant of their own (`graph.toolbox`).
"""

import os
import re
from pathlib import Path

from agentflow.graph.context import Context
from agentflow.graph.models.spec import PROVIDERS, ModelError, parse
from agentflow.tools.encyclopedia.choice import LIVE, PACKAGE
from agentflow.tools.encyclopedia.encyclopedia import provider
from agentflow.tools.search_cache import parse_mode
from agentflow.tools.untrusted_text import one_line

ENDPOINTS = "AGENTFLOW_ENDPOINTS"
FILES = "AGENTFLOW_FILES"

CHECKPOINTS = ("", "seed", "trained")
"""What `embedded:` may name without a grant: what ships with the package."""

_PLAIN_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?(?P<path>(?:/[a-z0-9._~-]*+)*+)",
    re.IGNORECASE | re.ASCII,
)
"""No user, no escapes, no query: of what is left, every library makes the same."""

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[\w-]*", re.ASCII)


def check_grants(context: Context) -> None:
    """Raises ModelError (configuration), one line, if the settings name what is not granted."""
    for spec in (context.model, *context.models.values()):
        _check_model(spec)
    if context.embeddings:
        _check_model(context.embeddings)
    if context.corpus.startswith(("http://", "https://")):
        _check_endpoint(context.corpus)
    elif context.corpus not in ("auto", LIVE, PACKAGE) and not provider(context.corpus):
        _check_file(context.corpus)
    if ":" in context.search_cache:
        _check_file(str(parse_mode(context.search_cache)[1]))


def _check_model(spec: str) -> None:
    parsed = parse(spec)
    if parsed.base_url:
        known = PROVIDERS.get(parsed.provider)
        if known is None or parsed.base_url != known.base_url:
            _check_endpoint(parsed.base_url)
    elif parsed.provider == "embedded":
        if parsed.model not in CHECKPOINTS:
            _check_file(parsed.model)
    elif parsed.provider not in PROVIDERS and not _NAME.fullmatch(parsed.model):
        # The provider would read it, perhaps as a path, or as the spec of yet another model.
        raise _refused(spec, "of this provider, a plain name alone")


def _check_endpoint(url: str) -> None:
    if not any(_covers(grant, url) for grant in granted(ENDPOINTS)):
        raise _refused(url, f"the server's operator grants it in {ENDPOINTS}")


def _check_file(name: str) -> None:
    if name.startswith("~") or not any(_contains(grant, name) for grant in granted(FILES)):
        raise _refused(name, f"the server's operator grants it in {FILES}")


def _refused(what: str, instead: str) -> ModelError:
    return ModelError(f"a client's settings may not name {one_line(what, 200)}; {instead}", configuration=True)


def granted(variable: str) -> list[str]:
    """What the environment variable lists."""
    return [grant.strip() for grant in os.environ.get(variable, "").split(",") if grant.strip()]


def _covers(grant: str, url: str) -> bool:
    granted, asked = _parts(grant), _parts(url)
    if granted is None or asked is None:
        return False
    (origin, path), (asked_origin, asked_path) = granted, asked
    return origin == asked_origin and asked_path[: len(path)] == path


def _parts(url: str) -> tuple[tuple[str, str, int], list[str]] | None:
    """Origin and path of a plain URL; None of any other."""
    match = _PLAIN_URL.fullmatch(url)
    if match is None:
        return None
    scheme, path = match["scheme"].lower(), match["path"].rstrip("/").split("/")[1:]
    if {".", ".."} & set(path):
        return None
    return (scheme, match["host"].lower(), int(match["port"] or _PORTS[scheme])), path


def _contains(grant: str, name: str) -> bool:
    """Whether a file is, or lies in, what is granted, when all links are followed."""
    try:
        return Path(name).resolve().is_relative_to(Path(grant).expanduser().resolve())
    except (ValueError, OSError, RuntimeError):  # a null byte, a loop of links, an unknown home
        return False
