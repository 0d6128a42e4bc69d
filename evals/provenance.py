"""The provenance of an evaluation that is about to run (`record.Provenance`).

AgentFlow's version does not identify a checkout, and a commit does not include later changes. A hash of the source
files covers both, and is the same for a checkout and a wheel.
"""

import hashlib
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import agentflow
from agentflow.evals.agent_names import AgentName
from agentflow.evals.agents import agent_prompts
from agentflow.evals.benchmarks import own
from agentflow.evals.judge import prompt_hash
from agentflow.evals.record import Provenance, ToolProvenance
from agentflow.graph.context import Context
from agentflow.graph.toolbox import Toolbox
from agentflow.tools.catalogue import TOOLS
from agentflow.tools.encyclopedia.choice import is_local
from agentflow.tools.external import definition_of, is_external
from agentflow.tools.search_cache import parse_mode
from agentflow.tools.tool_model import RUN, model_behind
from agentflow.version import __version__

PACKAGES = (
    *("langgraph", "langchain-core", "langchain-openai", "langchain-community", "pydantic", "mcp"),
    *("torch", "transformers", "tokenizers", "bm25s", "trafilatura", "wikipedia", "tavily-python"),
    *("numpy", "sympy", "scipy", "pandas"),
)
"""Packages that affect a run: the graph and its models, the tools, and packages available to python_coder programs."""

CODE = ("graph", "nodes", "tools", "evals", "rl/micro")
"""Folders of the source files that affect a score."""


async def provenance_of(
    agent: AgentName, context: Context, call: str, benchmarks: Sequence[str] = (), questions: Path | None = None
) -> Provenance:
    """Return the current provenance of an evaluation. Raises ModelError if a tool cannot be loaded.

    `call` is the command, quoted for a shell; the `benchmarks` have been loaded; `questions` is a file of tasks.
    """
    replaced = context.prompts if agent == "agentflow" else {}
    prompts = {module: replaced.get(module, text) for module, text in agent_prompts(agent, context).items()}
    return Provenance(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        call=call,
        versions=versions(),
        prompts={module: prompt_hash(text) for module, text in prompts.items()},
        tools={} if agent == "direct" else await _tools(context),
        inputs={name: file_hash(path) for name, path in _inputs(agent, context, benchmarks, questions).items()},
    )


def _inputs(agent: AgentName, context: Context, benchmarks: Sequence[str], questions: Path | None) -> dict[str, Path]:
    """Return the local files that an evaluation reads, by purpose; without a cache that it also writes."""
    corpus = Path(context.corpus_name)
    mode, recording = parse_mode(context.search_cache)
    tools = [] if agent == "direct" else [spec for spec in context.tools if is_external(spec)]
    named = {
        "questions": questions,
        "corpus": corpus if is_local(str(corpus)) else None,
        "search cache": recording if mode == "replay" else None,
        **dict(map(own.definition_of, benchmarks)),
        **dict(map(definition_of, tools)),
    }
    return {name: path for name, path in named.items() if path and path.is_file()}


def file_hash(path: Path) -> str:
    """Return the hash of a file's content: 12 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


async def _tools(context: Context) -> dict[str, ToolProvenance]:
    """Return the tools that can be called. External tools are permitted because the settings name them."""
    available = await Toolbox([spec for spec in context.tools if is_external(spec)]).examine(context)
    found = {}
    for name, tool in available.tools.items():
        model = model_behind(tool)
        asks = TOOLS[name].prompt if name in TOOLS and model == RUN else ""
        card = prompt_hash(available.cards[name].model_dump_json())
        found[name] = ToolProvenance(model=model, card=card, prompt=prompt_hash(asks) if asks else "")
    return found


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
