"""The tools of a run: the standard ones that its context names, and those that the caller of `build_graph` added."""

from collections.abc import Sequence
from functools import lru_cache

from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool

from agentflow.graph.context import Context, Sampling
from agentflow.graph.models import ModelError, aload_model, called_by, complete
from agentflow.tools.card import ToolCard
from agentflow.tools.catalogue import STANDARD_TOOLS, standard_tools
from agentflow.tools.result import ErrorClass, ToolFailure


class Toolbox:
    """Gives a run its tools by name, and their cards."""

    def __init__(self, added: Sequence[BaseTool] = ()) -> None:
        """`added` are always enabled; one that bears a standard tool's name replaces it."""
        self._added = {tool.name: tool for tool in added}
        self._added_cards = {name: ToolCard.of(tool) for name, tool in self._added.items()}

    def tools(self, context: Context) -> dict[str, BaseTool]:
        """Raises ModelError (configuration) when the context names a tool that does not exist."""
        return {**self._standard(context)[0], **self._added}

    def cards(self, context: Context) -> dict[str, ToolCard]:
        """The cards of `tools`."""
        return {**self._standard(context)[1], **self._added_cards}

    def _standard(self, context: Context) -> tuple[dict[str, BaseTool], dict[str, ToolCard]]:
        names = tuple(name for name in context.tools if name not in self._added)
        return _standard(names, context.model_of("tools"), context.sampling_of("tools"), context.corpus_name)


@lru_cache(maxsize=64)
def _standard(
    names: tuple[str, ...], model: str, sampling: Sampling, corpus: str
) -> tuple[dict[str, BaseTool], dict[str, ToolCard]]:
    if unknown := [name for name in names if name not in STANDARD_TOOLS]:
        raise ModelError(
            f"there is no tool '{unknown[0]}'; the tools are {', '.join(STANDARD_TOOLS)}", configuration=True
        )

    async def ask(prompt: str) -> str:
        try:
            return await complete(await aload_model(model, sampling), [HumanMessage(prompt)], called_by("tools"))
        except ModelError as error:
            raise ToolFailure(ErrorClass.MODEL_ERROR, str(error)) from error

    tools = standard_tools(names, ask, corpus)
    return tools, {name: ToolCard.of(tool) for name, tool in tools.items()}
