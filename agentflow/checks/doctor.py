"""Checks behind `agentflow doctor` and `agentflow tools`: what works on this machine, and remedies for the rest.

Checks exercise a part instead of inspecting it where possible: the embedded model answers a prompt, the index is
searched, a program runs in the sandbox.
"""

import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agentflow.checks.check import Check
from agentflow.version import __version__

if TYPE_CHECKING:
    from agentflow.tools.search_settings import SearchSettings

DISTRIBUTION = "agentflow-langgraph"

TRAINING = ("hydra", "jinja2", "ray", "torch", "transfer_queue", "transformers", "verl")
"""Import names of the packages of the extra `train`."""


def versions() -> list[Check]:
    """Return the versions of AgentFlow, Python and the main packages."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    packages = ("langgraph", "langchain-core", "langchain-openai")
    return [
        ("agentflow", "-", __version__),
        ("Python", "-", python),
        *((name, "-", version(name)) for name in packages),
    ]


async def embedded() -> list[Check]:
    """Check the embedded model, the Atlas index and the sandbox by using each."""
    from langchain_core.messages import HumanMessage

    from agentflow.graph.context import TRAINED_PLANNER, Sampling
    from agentflow.graph.models.loading import complete, load_model
    from agentflow.graph.models.spec import ModelError
    from agentflow.rl.micro.batch_invariance import batch_invariant
    from agentflow.rl.micro.chat_model import SEED
    from agentflow.rl.micro.model import MicroModel
    from agentflow.tools.catalogue import standard_tools
    from agentflow.tools.run import run_tool
    from agentflow.tools.sandbox.execute import sandbox_level
    from agentflow.tools.sandbox.limits import SandboxError
    from agentflow.tools.search_settings import SearchSettings

    async def ask(prompt: str, spec: str = "embedded") -> str:
        return await complete(load_model(spec, Sampling(temperature=0, max_tokens=16)), [HumanMessage(prompt)])

    start = time.perf_counter()
    try:
        for spec in ("embedded", TRAINED_PLANNER):
            await ask("Question: What is 1 + 1?", spec)
        bits = "to the bit" if batch_invariant(MicroModel.load(SEED)) else "to float32 rounding only"
        says = f"loads and answers, {time.perf_counter() - start:.1f} s; the same {bits} in any batch"
        checks: list[Check] = [("embedded model", "ok", says)]
    except ModelError as error:
        checks = [("embedded model", "no", str(error))]
    used = standard_tools(["wikipedia_search", "python_coder"], ask, SearchSettings(corpus="atlas"))
    found = await run_tool(used["wikipedia_search"], {"query": "capital"}, 60)
    checks.append(("Atlas index", "no" if found.error else "ok", found.output if found.error else "can be searched"))
    try:
        ran = await run_tool(used["python_coder"], {"code": "print(6 * 7)"}, 30)
        level = sandbox_level()
    except SandboxError as error:
        return [*checks, ("python_coder", "no", str(error))]
    return [*checks, ("python_coder", "no" if ran.error else "ok", ran.output if ran.error else level)]


def tools(names: Sequence[str], search: "SearchSettings") -> list[Check]:
    """Return each tool's description and search source, or what it needs before it can be used."""
    from agentflow.tools.catalogue import availability, standard_cards
    from agentflow.tools.providers.choice import state

    cards = standard_cards(names)
    asks = {"wikipedia_search": f" (reads {search.corpus})", "google_search": f" ({state(search.engine)[1]})"}
    checks: list[Check] = []
    for name in names:
        problem = availability(name, search)
        checks.append((name, "no" if problem else "ok", problem or cards[name].description + asks.get(name, "")))
    return checks


def engines() -> list[Check]:
    """List the search engines and whether google_search can use them.

    Names of environment variables are shown, never their values.
    """
    from agentflow.tools.providers.choice import AUTO, WITH_KEY, state

    checks: list[Check] = []
    for name in (AUTO, *WITH_KEY, "community:duckduckgo"):
        usable, says = state(name)
        checks.append((f"search: {name}", "ok" if usable else "-", says))
    return checks


def training() -> Check:
    """Check that the packages of the extra `train` are installed."""
    missing = [name for name in TRAINING if find_spec(name) is None]
    if "verl" in missing and sys.version_info >= (3, 13):
        return "training", "-", "needs Python 3.11 or 3.12, which verl supports"
    if missing:
        return "training", "-", f"needs {', '.join(missing)}; install it with: pip install '{DISTRIBUTION}[train]'"
    return "training", "ok", f"verl {version('verl')}, ray {version('ray')}, torch {version('torch')}"


def keys() -> list[Check]:
    """List the providers' key variables and whether they are set, never their values."""
    from agentflow.graph.models.spec import PROVIDERS

    checks: list[Check] = []
    for name, provider in PROVIDERS.items():
        if os.environ.get(provider.key_variable, "").strip():
            checks.append((provider.key_variable, "ok", f"set, for --model {name}:MODEL"))
        else:
            need = "set it to use" if provider.needs_key else "not set; only needed if the server asks for a key:"
            checks.append((provider.key_variable, "-", f"{need} --model {name}:MODEL"))
    return checks
