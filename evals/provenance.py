"""The provenance of an evaluation that is about to run (`record.Provenance`).

AgentFlow's version does not identify a checkout, and a commit does not include later changes. A hash of the source
files covers both, and is the same for a checkout and a wheel.
"""

import hashlib
import platform
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import agentflow
from agentflow.evals.agent_names import AgentName
from agentflow.evals.judge import prompt_hash
from agentflow.evals.record import Provenance, ToolProvenance
from agentflow.graph.context import Context
from agentflow.graph.toolbox import Toolbox
from agentflow.tools.card import model_behind
from agentflow.tools.external import is_external
from agentflow.version import __version__

PACKAGES = (
    *("langgraph", "langchain-core", "langchain-openai", "langchain-community", "pydantic", "mcp"),
    *("torch", "transformers", "tokenizers", "bm25s", "trafilatura", "tavily-python"),
    *("numpy", "sympy", "scipy", "pandas"),
)
"""Packages that affect a run: the graph and its models, the tools, and packages available to python_coder programs."""

CODE = ("graph", "nodes", "tools", "evals", "rl/micro")
"""Folders of the source files that affect a score."""


async def provenance_of(agent: AgentName, context: Context, call: str) -> Provenance:
    """Return the current provenance of an evaluation. Raises ModelError if a tool cannot be loaded.

    `call` is the command, quoted for a shell.
    """
    return Provenance(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        call=call,
        versions=versions(),
        tools={} if agent == "direct" else await _tools(context),
    )


async def _tools(context: Context) -> dict[str, ToolProvenance]:
    """Return the tools that can be called. External tools are permitted because the settings name them."""
    available = await Toolbox([spec for spec in context.tools if is_external(spec)]).examine(context)
    return {
        name: ToolProvenance(model=model_behind(tool), card=prompt_hash(available.cards[name].model_dump_json()))
        for name, tool in available.tools.items()
    }


def versions() -> dict[str, str]:
    """Return the versions of AgentFlow, its source files, Python, the platform and the installed `PACKAGES`."""
    found = {
        "agentflow": __version__,
        "code": code_hash(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def code_hash() -> str:
    """Return the hash of AgentFlow's source files that affect a score: 12 hexadecimal digits."""
    home, digest = Path(agentflow.__file__).parent, hashlib.sha256()
    for folder in CODE:
        for path in sorted((home / folder).resolve().rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{folder}/{path.relative_to((home / folder).resolve())}\n{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:12]
