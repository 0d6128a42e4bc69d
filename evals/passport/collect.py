"""Looks up what an evaluation that is about to run is made with (`provenance.Provenance`).

AgentFlow's version alone says little of a checkout, and a commit nothing of what was changed since: the hash of its own
programs tells both, and is the same for a checkout and a wheel.
"""

import hashlib
import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import agentflow
from agentflow.evals.agents import AgentName, agent_prompts
from agentflow.evals.judge import prompt_hash
from agentflow.evals.passport.provenance import Provenance, ToolProvenance
from agentflow.graph.context import Context
from agentflow.graph.toolbox import Toolbox
from agentflow.tools.catalogue import TOOLS
from agentflow.tools.encyclopedia.choice import is_local
from agentflow.tools.external import is_external
from agentflow.tools.tool_model import RUN, model_behind
from agentflow.version import __version__

PACKAGES = (
    *("langgraph", "langchain-core", "langchain-openai", "langchain-community", "pydantic", "mcp"),
    *("torch", "transformers", "tokenizers", "bm25s", "trafilatura", "wikipedia", "tavily-python"),
    *("numpy", "sympy", "scipy", "pandas"),
)
"""Those that decide what a run does: the graph and its models, the tools, and what programs of python_coder find."""

CODE = ("graph", "nodes", "tools", "evals", "rl/micro")
"""Folders of the programs that make a score."""


async def provenance_of(agent: AgentName, context: Context, call: str, questions: Path | None = None) -> Provenance:
    """What `agent` is made with, here and now; `questions` is their file, if they are not a benchmark's own.

    Raises ModelError where a tool cannot be had.
    """
    own = context.prompts if agent == "agentflow" else {}
    prompts = {module: own.get(module, text) for module, text in agent_prompts(agent).items()}
    return Provenance(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        call=call,
        versions=versions(),
        prompts={module: prompt_hash(text) for module, text in prompts.items()},
        tools={} if agent == "direct" else await _tools(context),
        inputs={name: file_hash(path) for name, path in _inputs(context, questions).items()},
    )


def _inputs(context: Context, questions: Path | None) -> dict[str, Path]:
    """The files of this machine that an evaluation reads."""
    corpus = Path(context.corpus_name)
    named = {"questions": questions, "corpus": corpus if is_local(str(corpus)) else None}
    return {name: path for name, path in named.items() if path and path.is_file()}


def file_hash(path: Path) -> str:
    """Hash of a file's content: 12 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


async def _tools(context: Context) -> dict[str, ToolProvenance]:
    """Those that can be used; naming foreign ones is what grants them."""
    offer = await Toolbox([spec for spec in context.tools if is_external(spec)]).examine(context)
    found = {}
    for name, tool in offer.tools.items():
        model = model_behind(tool)
        asks = TOOLS[name].prompt if name in TOOLS and model == RUN else ""
        card = prompt_hash(offer.cards[name].model_dump_json())
        found[name] = ToolProvenance(model=model, card=card, prompt=prompt_hash(asks) if asks else "")
    return found


def versions() -> dict[str, str]:
    """What is installed, of what decides an outcome."""
    found = {
        "agentflow": __version__,
        "code": code_hash(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def code_hash() -> str:
    """Of AgentFlow's own programs, as they lie on the disk: 12 hexadecimal digits."""
    home, digest = Path(agentflow.__file__).parent, hashlib.sha256()
    for folder in CODE:
        for path in sorted((home / folder).resolve().rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{folder}/{path.relative_to((home / folder).resolve())}\n{len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:12]
