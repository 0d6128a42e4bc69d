"""Checks behind `agentflow tools` and `agentflow tools test`: descriptions and trial calls of the tools."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentflow.checks import doctor
from agentflow.checks.check import Check, Trial
from agentflow.tools.encyclopedia.choice import LIVE, PACKAGE

if TYPE_CHECKING:
    from agentflow.graph.context import Context
    from agentflow.graph.toolbox import AvailableTools
    from agentflow.tools.card import ToolCard

SECONDS = 60.0
"""Timeout of a trial call, in seconds."""

_REMEDIES = {
    "bad_arguments": "name arguments that fit it with --call",
    "tool_error": "check the network and its server, or try other arguments with --call",
    "timeout": "check the network and its server, or try again",
    "empty_result": "ask it for something that it has, with --call",
    "model_error": "check the model with agentflow doctor --model, or name another with --model",
}


async def examine(context: "Context") -> "AvailableTools":
    """Load all tools of the context; external tools are granted because the context names them. Raises ModelError."""
    from agentflow.graph.toolbox import Toolbox
    from agentflow.tools.external import is_external

    return await Toolbox([spec for spec in context.tools if is_external(spec)]).examine(context)


async def listed(context: "Context") -> list[Check]:
    """Return each tool's description, or what it needs before it can be used. Raises ModelError."""
    from agentflow.tools.catalogue import STANDARD_TOOLS

    standard = [name for name in context.tools if name in STANDARD_TOOLS]
    checks = doctor.tools(standard, context.search)
    if len(standard) == len(context.tools):
        return checks
    found = await examine(context)
    external = [name for name, source in found.sources.items() if source not in standard]
    checks += [(name, "ok", found.cards[name].description) for name in external]
    return checks + [(spec, "no", why) for spec, why in found.unavailable.items() if spec not in standard]


async def tried(context: "Context", calls: Mapping[str, dict[str, Any]]) -> AsyncIterator[Trial]:
    """Yield a trial of each of the context's tools as it ends, with arguments from `calls` or the tool's own example.

    Generated examples are never called, because their effects are unknown. Raises ModelError.
    """
    from agentflow.tools.result import ErrorClass, ToolResult
    from agentflow.tools.run import run_tool
    from agentflow.tools.sandbox.limits import SandboxError

    found = await examine(context)
    for name, why in found.unavailable.items():
        yield Trial(name, "no", why)
    for name, tool in found.tools.items():
        arguments = calls[name] if name in calls else _example(found.cards[name], context.corpus_name)
        if arguments is None:
            yield Trial(name, "-", f"it has no example to try it with; name arguments with --call '{name}={{...}}'")
            continue
        try:
            result = await run_tool(tool, arguments, SECONDS)
        except SandboxError as error:
            result = ToolResult.failed(ErrorClass.TOOL_ERROR, str(error))
        says = result.output if result.error is None else f"{result.output} ({_REMEDIES[result.error]})"
        call = json.dumps(arguments, ensure_ascii=False)
        yield Trial(name, "no" if result.error else "ok", says, call, result.seconds, result.sandbox)


def left_out(names: Iterable[str]) -> list[Trial]:
    """Return a trial with status "-" for each standard tool that is not enabled, with how to try it."""
    from agentflow.tools.catalogue import availability
    from agentflow.tools.search_settings import SearchSettings

    return [
        Trial(
            name,
            "-",
            availability(name, SearchSettings()) or f"not enabled; try it with agentflow tools test --tools {name}",
        )
        for name in names
    ]


def _example(card: "ToolCard", corpus: str) -> dict[str, Any] | None:
    if card.name == "base_generator":  # the example of its card is beyond the embedded model
        return {"query": "Read the code of Lukik. The codes are Lukik 297 and Metab 939."}
    if card.name == "wikipedia_search" and corpus == "atlas":
        return {"query": "Song of Fupoz"}
    if card.name == "wikipedia_search" and corpus not in (LIVE, PACKAGE):
        return {"query": "capital"}  # matches an article of any encyclopedia
    return None if card.made_up else card.examples[0]
