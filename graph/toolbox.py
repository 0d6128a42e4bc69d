"""The tools of a run: those in its context, and those passed to `build_graph`.

A context may come from a remote client's settings, and an external tool is third-party code. So a context enables an
external tool only if it was granted, either as an argument of `build_graph` or by the environment variable
AGENTFLOW_TOOLS. The command line grants the tools in --tools.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool

from agentflow.graph.context import Context, Model, Sampling
from agentflow.graph.models.loading import aload_model, called_by, complete
from agentflow.graph.models.spec import ModelError, misconfigured
from agentflow.tools import external
from agentflow.tools.base_generator import Ask
from agentflow.tools.card import ToolCard
from agentflow.tools.catalogue import STANDARD_TOOLS, availability, standard_tool
from agentflow.tools.external import SpecError, Unavailable, is_external
from agentflow.tools.result import ErrorClass, ToolFailure
from agentflow.tools.search_settings import SearchSettings
from agentflow.tools.untrusted_text import bounded_line

GRANTED = "AGENTFLOW_TOOLS"
"""Environment variable with the external tools that any run may enable, separated by commas."""

RETRY_SECONDS = 30.0
"""Seconds after which an unavailable tool is checked again."""

_log = logging.getLogger(__name__)


@dataclass
class AvailableTools:
    """The tools available to a run."""

    tools: dict[str, BaseTool] = field(default_factory=dict)
    cards: dict[str, ToolCard] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    """The remedy for each tool or spec that is left out."""
    sources: dict[str, str] = field(default_factory=dict)
    """The name or spec from which each tool comes."""
    at: float = field(default_factory=time.monotonic)
    warned: bool = False

    def add(self, tool: BaseTool, source: str) -> None:
        """Add a tool, which replaces one of the same name."""
        self.tools[tool.name], self.cards[tool.name], self.sources[tool.name] = tool, ToolCard.of(tool), source

    def of(self, source: str) -> list[BaseTool]:
        """Return the tools that come from a name or spec."""
        return [tool for name, tool in self.tools.items() if self.sources[name] == source]

    def warn(self) -> None:
        """Log the tools that are left out, once."""
        if not self.warned:
            for name, reason in self.unavailable.items():
                _log.warning("%s is not offered to the planner: %s", name, reason)
        self.warned = True

    @property
    def stale(self) -> bool:
        """Return whether to check again. Available tools are kept, so that a run's prompts do not change during the
        run.
        """
        return bool(self.unavailable) and time.monotonic() - self.at > RETRY_SECONDS


class Toolbox:
    """Provides a run's tools by name, and their cards."""

    def __init__(self, added: Sequence[BaseTool | Callable[..., Any] | str] = ()) -> None:
        """Set the tools and specs that are always enabled. A tool with a standard tool's name replaces it.

        Raises:
            TypeError: One is neither a tool nor a function with a docstring nor a spec, or can never be called.
            SpecError: A planner cannot write a name, or cannot distinguish two names.
        """
        if isinstance(added, str | BaseTool | Mapping) or not isinstance(added, Iterable):
            raise TypeError(f"the tools are a list, not {bounded_line(repr(added), 120)}")
        added = list(added)
        self._specs = tuple(spec for spec in added if isinstance(spec, str))
        tools = [external.as_tool(one) for one in added if not isinstance(one, str)]
        external.check_names((tool.name, "build_graph") for tool in tools)
        self._added = {tool.name: tool for tool in tools}
        self._cache: dict[tuple[tuple[str, ...], str | int, Sampling, SearchSettings], AvailableTools] = {}

    async def available_tools(self, context: Context) -> AvailableTools:
        """Return the tools of a run. Raises ModelError as `examine` does, and if no tool is available."""
        found = await self.examine(context)
        found.warn()
        if not found.tools:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in found.unavailable.items())
            raise misconfigured("no_tool", f"no tool can be used: {reasons}")
        return found

    async def examine(self, context: Context) -> AvailableTools:
        """Return the available and the unavailable tools.

        Raises ModelError if the context names a tool that does not exist, is not granted, or is like another.
        """
        specs = tuple(dict.fromkeys([*context.tools, *self._specs]))
        model, sampling, search = context.model_of("tools"), context.sampling_of("tools"), context.search
        key = (specs, model if isinstance(model, str) else id(model), sampling, search)  # a tool keeps its model alive
        found = self._cache.get(key)
        if found is None or found.stale:
            if len(self._cache) > 64:
                self._cache.clear()
            found = self._cache[key] = await self._look(
                specs, _asks(model, sampling), search, found or AvailableTools()
            )
        return found

    async def _look(
        self, specs: tuple[str, ...], ask: Ask, search: SearchSettings, before: AvailableTools
    ) -> AvailableTools:
        available = AvailableTools()
        added = [(name, "build_graph") for name in self._added]
        for spec in specs:
            if spec in self._added:
                continue
            try:
                partly = any(name.startswith(f"{spec}#") for name in before.unavailable)
                kept = [] if partly else before.of(spec)
                for tool in kept or await self._usable(spec, ask, search, available.unavailable):
                    external.check_names([*added, *available.sources.items(), (tool.name, spec)])
                    available.add(tool, spec)
            except SpecError as error:
                raise misconfigured(error.code, str(error)) from error
            except Unavailable as error:
                available.unavailable[spec] = str(error)
        for name, tool in self._added.items():
            available.add(tool, name)
        return available

    async def _usable(self, spec: str, ask: Ask, search: SearchSettings, unavailable: dict[str, str]) -> list[BaseTool]:
        if not is_external(spec):
            if spec in STANDARD_TOOLS and (problem := await asyncio.to_thread(availability, spec, search)):
                raise Unavailable(problem)
            return [await asyncio.to_thread(standard_tool, spec, ask, search)]  # which may read a corpus
        if spec not in self._specs and spec not in granted_tools():
            raise SpecError(
                f"'{spec}' is not granted; name it in {GRANTED}, or give it to build_graph", code="not_granted"
            )
        return await external.load(spec, unavailable)


def granted_tools() -> list[str]:
    """Return the external tools that any run may enable."""
    return [spec.strip() for spec in os.environ.get(GRANTED, "").split(",") if spec.strip()]


def _asks(model: Model, sampling: Sampling) -> Ask:
    """Return a function that asks the model of the tools that need one."""

    async def ask(prompt: str) -> str:
        try:
            return await complete(await aload_model(model, sampling), [HumanMessage(prompt)], called_by("tools"))
        except ModelError as error:
            raise ToolFailure(ErrorClass.MODEL_ERROR, str(error)) from error

    return ask
