"""Model providers of installed packages: the entry points of the group `agentflow.models`.

An entry point is a function `load(model, sampling)`, which returns the chat model. `model` is the part of the spec
after the provider's name. If the provider's models know one encyclopedia only, the function says so with `knows_only`.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar

Profile = Literal["paper", "lean"]
"""How the modules speak to their models. "paper": an analysis, and a verdict in prose, in the texts that the embedded
model was trained on. "lean": short replies, examples of plans, and no analysis, for models that were not.
"""

_Load = TypeVar("_Load", bound=Callable[..., Any])

_CORPUS, _CALIBRATION = "agentflow_corpus", "agentflow_calibration"


def knows_only(corpus: str, calibration: Path | None = None) -> Callable[[_Load], _Load]:
    """Declare the encyclopedia of the provider's models, which `Context.corpus` "auto" takes for such a planner, and
    the file of the calibration that ships with them, which `Context.calibration` "auto" takes.
    """

    def declare(load: _Load) -> _Load:
        setattr(load, _CORPUS, corpus)
        setattr(load, _CALIBRATION, calibration)
        return load

    return declare


def profile_of(provider: str) -> Profile:
    """Return how the modules speak to the provider's models: as in the paper to those that were trained on it."""
    return "paper" if corpus_of(provider) else "lean"


@lru_cache(maxsize=1)
def installed() -> dict[str, EntryPoint]:
    """Return the entry points by provider."""
    return {found.name: found for found in entry_points(group="agentflow.models")}


def corpus_of(provider: str) -> str | None:
    """Return the only encyclopedia that the provider's models know, None if they know others too."""
    found: str | None = _declared(provider, _CORPUS)
    return found


def calibration_of(provider: str) -> Path | None:
    """Return the calibration that ships with the provider's models, None if there is none."""
    found: Path | None = _declared(provider, _CALIBRATION)
    return found


def _declared(provider: str, what: str) -> Any:
    if provider not in installed():
        return None
    try:
        return getattr(installed()[provider].load(), what, None)
    except Exception:  # an installed package may fail in any way; `load_model` reports it
        return None
