"""Access control for the settings of remote clients: they may name only servers and files that the operator granted.

A model spec may name a URL to which the operator's key is sent. A corpus, a search cache and a checkpoint are files
that are read or written. In Python and on the command line, the user chooses them. In a context that comes over a
network (`graph.server`), a URL or file is refused unless it is granted:

AGENTFLOW_ENDPOINTS   base URLs, separated by commas; paths below them are included
AGENTFLOW_FILES       files and folders, separated by commas

No grant is needed for the providers' default addresses, and for installed checkpoints and corpora, which are referred
to by name. External tools are granted separately (`graph.toolbox`).
"""

import os
import re
from pathlib import Path

from agentflow.graph.confidence import AUTO, OFF
from agentflow.graph.context import Context
from agentflow.graph.models.spec import PROVIDERS, ModelError, misconfigured, parse
from agentflow.tools.encyclopedia.choice import LIVE
from agentflow.tools.encyclopedia.encyclopedia import provider
from agentflow.tools.search_cache import parse_mode
from agentflow.tools.untrusted_text import one_line

ENDPOINTS = "AGENTFLOW_ENDPOINTS"
FILES = "AGENTFLOW_FILES"

CHECKPOINTS = ("", "seed", "trained")
"""Names after `embedded:` that need no grant, since they ship with the package."""

_PLAIN_URL = re.compile(
    r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(?:/(?!\.\.?(?:/|\Z))[a-z0-9._~-]*+)*+",
    re.IGNORECASE | re.ASCII,
)
"""No user, no escapes, no query and no path upwards, so that every library parses the URL alike."""

_NAME = re.compile(r"[\w-]*", re.ASCII)


def check_grants(context: Context) -> None:
    """Raise ModelError (configuration), with one line, if the settings name a URL or file that is not granted."""
    for model in (context.model, *context.models.values()):
        if isinstance(model, str):
            _check_model(model)
    if context.corpus.startswith(("http://", "https://")):
        _check_endpoint(context.corpus)
    elif context.corpus not in ("auto", LIVE) and not provider(context.corpus):
        _check_file(context.corpus)
    if context.calibration not in (AUTO, OFF):
        _check_file(context.calibration)
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
        # The provider would interpret it, perhaps as a path or as the spec of another model.
        raise _refused(spec, "of this provider, a plain name alone")


def _check_endpoint(url: str) -> None:
    if not any(_covers(grant, url) for grant in granted(ENDPOINTS)):
        raise _refused(url, f"the server's operator grants it in {ENDPOINTS}")


def _check_file(name: str) -> None:
    if name.startswith("~") or not any(_contains(grant, name) for grant in granted(FILES)):
        raise _refused(name, f"the server's operator grants it in {FILES}")


def _refused(what: str, instead: str) -> ModelError:
    return misconfigured("not_granted", f"a client's settings may not name {one_line(what, 200)}; {instead}")


def granted(variable: str) -> list[str]:
    """Return the items of the environment variable."""
    return [grant.strip() for grant in os.environ.get(variable, "").split(",") if grant.strip()]


def _covers(grant: str, url: str) -> bool:
    """Return whether a plain URL is the granted one, letter for letter, or below it."""
    return _PLAIN_URL.fullmatch(url) is not None and f"{url}/".startswith(f"{grant.rstrip('/')}/")


def _contains(grant: str, name: str) -> bool:
    """Return whether a file is the granted one or is inside it, after resolving all links."""
    try:
        return Path(name).resolve().is_relative_to(Path(grant).expanduser().resolve())
    except (ValueError, OSError, RuntimeError):  # a null byte, a loop of links, an unknown home
        return False
