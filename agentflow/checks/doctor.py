"""Checks behind `agentflow doctor` and `agentflow tools`: what works on this machine, and remedies for the rest.

Checks use a part instead of inspecting it where possible: the embedded model answers a prompt, the index is searched, a
program runs in the sandbox.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from agentflow.tools.encyclopedia.choice import LIVE
from agentflow.version import __version__, pip_install

if TYPE_CHECKING:
    from agentflow.graph.context import Context
    from agentflow.graph.toolbox import AvailableTools
    from agentflow.tools.card import ToolCard
    from agentflow.tools.search_settings import SearchSettings

Status = Literal["ok", "no", "-"]
"""It works, it does not, or it is not required or was not tried."""
Check = tuple[str, Status, str]
"""A line of a report: name, status, and details or a remedy."""

TRAINING = ("hydra", "jinja2", "ray", "torch", "transfer_queue", "transformers", "verl")
"""Import names of the packages of the extra `train`."""
SECONDS = 60.0
"""Timeout of a trial call, in seconds."""
_REMEDIES = {
    "bad_arguments": "name arguments that fit it with --call",
    "tool_error": "check the network and its server, or try other arguments with --call",
    "timeout": "check the network and its server, or try again",
    "empty_result": "ask it for something that it has, with --call",
    "model_error": "check the model with agentflow doctor --model, or name another with --model",
}


@dataclass(frozen=True)
class Trial:
    """Result of a trial call of a tool."""

    name: str
    works: Status
    says: str
    """Output of the call, or a remedy."""
    call: str = ""
    """Arguments of the call, as JSON; empty if the tool was not called."""
    seconds: float | None = None
    tier: str = ""
    """Sandbox tier, for a tool that runs code."""


def versions() -> list[Check]:
    """Return the versions of AgentFlow, Python and the main packages."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    packages: list[Check] = [(name, "-", version(name)) for name in ("langgraph", "langchain-core", "langchain-openai")]
    return [("agentflow", "-", __version__), ("Python", "-", python), *packages]


async def embedded() -> list[Check]:
    """Check the embedded model, the Atlas index and the sandbox by using each."""
    from langchain_core.messages import HumanMessage

    from agentflow.graph.context import TRAINED_PLANNER, Context, Sampling
    from agentflow.graph.models.loading import complete, load_model
    from agentflow.graph.models.spec import ModelError
    from agentflow.rl.micro.batch_invariance import batch_invariant
    from agentflow.rl.micro.chat_model import SEED
    from agentflow.rl.micro.model import MicroModel
    from agentflow.tools.sandbox.execute import sandbox_level

    start = time.perf_counter()
    try:
        for spec in ("embedded", TRAINED_PLANNER):
            model = load_model(spec, Sampling(temperature=0, max_tokens=16))
            await complete(model, [HumanMessage("Question: What is 1 + 1?")])
        bits = "to the bit" if batch_invariant(MicroModel.load(SEED)) else "to float32 rounding only"
        says = f"{time.perf_counter() - start:.1f} s; the same {bits} in any batch"
        checks: list[Check] = [("embedded model", "ok", says)]
    except ModelError as error:
        checks = [("embedded model", "no", str(error))]
    context = Context(tools=["wikipedia_search", "python_coder"], corpus="atlas")
    names = {"wikipedia_search": "Atlas index", "python_coder": "sandbox"}
    for trial in await tried(context, {"python_coder": {"code": "print(6 * 7)"}}):
        known = sandbox_level() if trial.tier else "can be searched"
        checks.append((names.get(trial.name, trial.name), trial.works, known if trial.works == "ok" else trial.says))
    return checks


def engines() -> list[Check]:
    """List the search engines that google_search can use; its own line says what the others need."""
    from agentflow.tools.providers.choice import WITH_KEY, state

    states = [(name, *state(name)) for name in (*WITH_KEY, "community:duckduckgo")]
    return [(f"search: {name}", "ok", says) for name, usable, says in states if usable]


def training() -> Check:
    """Check that the packages of the extra `train` are installed."""
    missing = [name for name in TRAINING if find_spec(name) is None]
    if "verl" in missing and sys.version_info >= (3, 13):
        return "training", "-", "needs Python 3.11 or 3.12, which verl supports"
    if missing:
        return "training", "-", f"needs {', '.join(missing)}; install it with: {pip_install('train')}"
    return "training", "ok", f"verl {version('verl')}, ray {version('ray')}, torch {version('torch')}"


def keys() -> list[Check]:
    """List the key variables that are set, never their values, and those that a provider cannot do without."""
    from agentflow.graph.models.spec import PROVIDERS

    checks: list[Check] = []
    for name, provider in PROVIDERS.items():
        if os.environ.get(provider.key_variable, "").strip():
            checks.append((provider.key_variable, "ok", f"set, for --model {name}:MODEL"))
        elif provider.needs_key:
            checks.append((provider.key_variable, "-", f"set it to use --model {name}:MODEL"))
    return checks


def standard(names: Sequence[str], search: "SearchSettings") -> list[Check]:
    """Return each standard tool's description and search source, or what it needs before it can be used."""
    from agentflow.tools.catalogue import availability, standard_cards
    from agentflow.tools.providers.choice import state

    cards = standard_cards(names)
    asks = {"wikipedia_search": f" (reads {search.corpus})", "google_search": f" ({state(search.engine)[1]})"}
    problems = [(name, availability(name, search)) for name in names]
    return [
        (name, "no" if why else "ok", why or cards[name].description + asks.get(name, "")) for name, why in problems
    ]


async def examine(context: "Context") -> "AvailableTools":
    """Load all tools of the context; external tools are granted because the context names them. Raises ModelError."""
    from agentflow.graph.toolbox import Toolbox
    from agentflow.tools.external import is_external

    return await Toolbox([spec for spec in context.tools if is_external(spec)]).examine(context)


async def tools(context: "Context") -> list[Check]:
    """Return each tool's description, or what it needs before it can be used. Raises ModelError."""
    from agentflow.tools.catalogue import STANDARD_TOOLS

    own = [name for name in context.tools if name in STANDARD_TOOLS]
    checks = standard(own, context.search)
    if len(own) == len(context.tools):
        return checks
    found = await examine(context)
    checks += [(name, "ok", found.cards[name].description) for name, of in found.sources.items() if of not in own]
    return checks + [(spec, "no", why) for spec, why in found.unavailable.items() if spec not in own]


async def tried(context: "Context", calls: Mapping[str, dict[str, Any]]) -> list[Trial]:
    """Return a trial of each of the context's tools, with arguments from `calls` or the tool's own example.

    Generated examples are never called, because their effects are unknown. Raises ModelError.
    """
    from agentflow.tools.result import ErrorClass, ToolResult
    from agentflow.tools.run import run_tool
    from agentflow.tools.sandbox.limits import SandboxError

    found = await examine(context)
    trials = [Trial(name, "no", why) for name, why in found.unavailable.items()]
    for name, tool in found.tools.items():
        arguments = calls[name] if name in calls else _example(found.cards[name], context.corpus_name)
        if arguments is None:
            how = f"it has no example to try it with; name arguments with --call '{name}={{...}}'"
            trials.append(Trial(name, "-", how))
            continue
        try:
            result = await run_tool(tool, arguments, SECONDS)
        except SandboxError as error:
            result = ToolResult.failed(ErrorClass.TOOL_ERROR, str(error))
        remedy = _REMEDIES.get(result.error or "", _REMEDIES["tool_error"])
        says = result.output if result.error is None else f"{result.output} ({remedy})"
        call = json.dumps(arguments, ensure_ascii=False)
        trials.append(Trial(name, "no" if result.error else "ok", says, call, result.seconds, result.sandbox))
    return trials


def _example(card: "ToolCard", corpus: str) -> dict[str, Any] | None:
    if card.name == "base_generator":  # the example of its card is beyond the embedded model
        return {"query": "Read the code of Lukik. The codes are Lukik 297 and Metab 939."}
    if card.name == "wikipedia_search" and corpus == "atlas":
        return {"query": "Song of Fupoz"}
    if card.name == "wikipedia_search" and corpus != LIVE:
        return {"query": "capital"}  # matches an article of any encyclopedia
    return None if card.made_up else card.examples[0]
