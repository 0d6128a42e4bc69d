"""The graph of one rollout: nothing that one rollout writes is there in the next.

A store, a saver or a cache that a graph was compiled with would carry the memory of one task into the prompts of
another, and answer calls that are to be sampled. So each rollout runs a copy, with an empty store, an empty saver where
there was one, and no cache. A graph that is made by an async function or context manager, as those with MCP tools are,
is made for each rollout.
"""

import copy
import inspect
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from langchain_core.runnables import Runnable, RunnableSequence
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from agentflow.rl.apps.trainable import AppError, Made, compiled


@asynccontextmanager
async def opened(made: Made, *, resumes: bool = False) -> AsyncIterator[Any]:
    """Yield the graph of a rollout, which can be resumed after an interrupt if `resumes`. Raises AppError."""
    async with AsyncExitStack() as stack:
        found: Any = made if isinstance(made, Runnable) else made()
        if hasattr(found, "__aenter__"):
            found = await stack.enter_async_context(found)
        elif inspect.isawaitable(found):
            found = await found
        yield _isolated(compiled(found), resumes)


def _isolated(graph: Any, resumes: bool) -> Any:
    if isinstance(graph, RunnableSequence):
        return RunnableSequence(*(_isolated(step, resumes) for step in graph.steps))
    if not isinstance(graph, Pregel):
        return graph
    if cached := [name for name, inner in graph.get_subgraphs(recurse=True) if getattr(inner, "cache", None)]:
        raise AppError(f"the subgraph {cached[0]} has a cache, which answers what is to be sampled; compile it without")
    found = copy.copy(graph)
    found.store, found.cache = InMemoryStore(index=getattr(graph.store, "index_config", None)), None
    found.checkpointer = InMemorySaver() if graph.checkpointer or resumes else None
    return found


def context_of(graph: Any, given: Any) -> Any:
    """Return the context of a run: what is given, or the defaults of the graph's schema. Raises AppError."""
    schema = getattr(graph, "context_schema", None)
    if given is not None or schema is None:
        return given
    try:
        return schema()
    except (TypeError, ValueError) as error:
        needed = ", ".join(getattr(schema, "__annotations__", ()))
        raise AppError(
            f"the graph wants a context ({needed}); give it with --context, or in a column `context` of the tasks",
            code="no_context",
        ) from error


def check_inputs(graph: Any, given: Any) -> None:
    """Raise AppError if the graph would drop all of its input, which LangGraph does in silence."""
    fields = _input_fields(graph)
    if fields and isinstance(given, Mapping) and given and not given.keys() & fields:
        raise AppError(
            f"the graph's input has {', '.join(fields)}, and the task gives {', '.join(given)}; give the task `inputs`",
            code="wrong_inputs",
        )


def lacks_input(graph: Any, given: Any, error: Exception) -> bool:
    """Return whether a node failed for want of a field of the graph's input, which the task did not give."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    return isinstance(key, str) and isinstance(given, Mapping) and key not in given and key in _input_fields(graph)


def _input_fields(graph: Any) -> Collection[str]:
    builder = getattr(graph, "builder", None)
    return builder.schemas[builder.input_schema] if builder else ()
