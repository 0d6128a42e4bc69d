"""A compiled graph that keeps its own recursion limit inside chains and batches.

LangChain fills in a limit of 25 wherever a caller gives none, and a graph cannot distinguish that from a caller's
choice. So a question of eight turns would fail in `chain.invoke` and in `graph.batch`, and succeed in `graph.invoke`.
As in LangChain's merging of configurations, 25 counts here as not given.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT
from langgraph.graph.state import CompiledStateGraph

from agentflow.tools.langchain_tracing import redact_langchain_tracing

_State = TypeVar("_State")
_Context = TypeVar("_Context")
_Input = TypeVar("_Input")
_Output = TypeVar("_Output")


class OwnRecursionLimit(CompiledStateGraph[_State, _Context, _Input, _Output]):  # type: ignore[type-var]
    """A compiled graph whose limit is that of `with_config`, unless a run gives another."""

    @classmethod
    def of(cls, compiled: CompiledStateGraph[_State, _Context, _Input, _Output]) -> Any:  # type: ignore[type-var]
        """Return the same graph as an instance of this class."""
        return cls(**vars(compiled))

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Stream as LangGraph does; `invoke` and `batch` call this."""
        redact_langchain_tracing()
        return super().stream(input, self._limited(config), **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """Stream as LangGraph does; `ainvoke` and `abatch` call this."""
        redact_langchain_tracing()
        return super().astream(input, self._limited(config), **options)

    def _limited(self, config: RunnableConfig | None) -> RunnableConfig | None:
        own = (self.config or {}).get("recursion_limit")
        if own and config and config.get("recursion_limit") == DEFAULT_RECURSION_LIMIT:
            return {**config, "recursion_limit": own}
        return config
