"""A compiled graph that keeps its own recursion limit inside chains and batches.

LangChain fills in a limit of 25 wherever a caller gives none, and a graph cannot distinguish that from a caller's
choice. So a question of eight turns would fail in `chain.invoke` and in `graph.batch`, and succeed in `graph.invoke`.
As in LangChain's merging of configurations, 25 counts here as not given.

A setting in a run's `config["configurable"]` would be ignored, since settings are the run's context: it is refused.
Inside another chain or graph, these names may be that one's own.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT, var_child_runnable_config
from langgraph.graph.state import CompiledStateGraph

from agentflow.tools.langchain_tracing import redact_langchain_tracing


class OwnRecursionLimit(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose limit is that of `with_config`, unless a run gives another."""

    @classmethod
    def of(cls, compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Any:
        """Return the same graph as an instance of this class."""
        return cls(**vars(compiled))

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Stream as LangGraph does; `invoke` and `batch` call this."""
        redact_langchain_tracing()
        self._refuse_settings(config, options)
        return super().stream(input, self._limited(config), **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:
        """Stream as LangGraph does; `ainvoke` and `abatch` call this."""
        redact_langchain_tracing()
        self._refuse_settings(config, options)
        return super().astream(input, self._limited(config), **options)

    def _limited(self, config: RunnableConfig | None) -> RunnableConfig | None:
        own = (self.config or {}).get("recursion_limit")
        if own and config and config.get("recursion_limit") == DEFAULT_RECURSION_LIMIT:
            return {**config, "recursion_limit": own}
        return config

    def _refuse_settings(self, config: RunnableConfig | None, options: Mapping[str, Any]) -> None:
        if options.get("context") is not None or var_child_runnable_config.get() is not None:
            return
        given = {**(self.config or {}).get("configurable", {}), **(config or {}).get("configurable", {})}
        if named := sorted(given.keys() & getattr(self.context_schema, "model_fields", {}).keys()):
            raise ValueError(
                f"config['configurable'] takes no {', '.join(named)}; pass context=Context({named[0]}=...)"
            )
