"""Model providers of installed packages: the entry points of the group `agentflow.models`.

An entry point is a function `load(model, sampling)`, which returns the chat model. `model` is the part of the spec
after the provider's name. If the provider's models know one encyclopedia only, the function says so with `knows_only`.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

_Load = TypeVar("_Load", bound=Callable[..., Any])

_CORPUS = "agentflow_corpus"


def knows_only(corpus: str) -> Callable[[_Load], _Load]:
    """Declare the encyclopedia of the provider's models, which `Context.corpus` "auto" takes for such a planner."""

    def declare(load: _Load) -> _Load:
        setattr(load, _CORPUS, corpus)
        return load

    return declare


@lru_cache(maxsize=1)
def installed() -> dict[str, EntryPoint]:
    """Return the entry points by provider."""
    return {found.name: found for found in entry_points(group="agentflow.models")}


def corpus_of(provider: str) -> str | None:
    """Return the only encyclopedia that the provider's models know, None if they know others too."""
    if provider not in installed():
        return None
    try:
        return getattr(installed()[provider].load(), _CORPUS, None)
    except Exception:  # an installed package may fail in any way; `load_model` reports it
        return None
