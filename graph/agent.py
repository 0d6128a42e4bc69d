"""The agent: analyst, then rounds of planner, executor and verifier, then the generator.

One conditional edge, on the verifier's signal, decides between another round and the answer.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Literal, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from agentflow.graph.context import Context, Model, Module
from agentflow.graph.conversation import Node, conversing, quiet
from agentflow.graph.custom_node import CustomNode, checked_nodes
from agentflow.graph.recursion_limit import OwnRecursionLimit
from agentflow.graph.state import InputState, State
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes.analyst import Analyst
from agentflow.nodes.attachments import opened
from agentflow.nodes.executor import Executor
from agentflow.nodes.generator import Generator
from agentflow.nodes.planner import Planner
from agentflow.nodes.verifier import Verifier
from agentflow.tools.langchain_tracing import redact_langchain_tracing

Agent = CompiledStateGraph[State, Context, Any, State]
Result = TypeVar("Result")

THREAD = "agentflow"
"""Beginning of the names of the threads with background event loops."""

RECURSION_LIMIT = 650
"""Maximum number of node runs per question. It exceeds 100 turns of six node runs (with approval, and a mark before a
call with side effects), so that a run ends by turns or time.
"""

DURABLE = {"__pregel_durability": "sync"}
"""LangGraph's `durability="sync"` as the graph's default, which callers can override: each checkpoint is on disk before
the next step begins. Marks of calls with side effects rely on it (`nodes.at_most_once`).
"""


def build_graph(
    tools: Sequence[BaseTool | Callable[..., Any] | str] = (),
    *,
    model: Model | None = None,
    models: Mapping[Module, Model] | None = None,
    context: Context | None = None,
    nodes: Mapping[str, CustomNode] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
) -> Agent:
    """Return the compiled agent.

    Args:
        tools: LangChain tools, functions with a docstring, or specs of external tools (`agentflow.tools.external`).
            The planner may choose them in addition to those in `Context.tools`.
        model: The model of all modules, as in `Context`: a spec, or a LangChain chat model.
        models: The models of single modules, by name.
        context: Settings of runs without a `Context`, such as runs inside a graph with another context. A run's
            `Context` replaces them completely, and with them `model` and `models`.
        nodes: Functions that replace built-in nodes, by name: analyst, planner, executor, verifier or generator.
            `agentflow.graph.custom_node` documents their input and output.
        checkpointer: Stores threads; required for approval of tools (`open_checkpointer`). Runs then use
            `durability="sync"` unless the caller sets another.
        store: A LangGraph store, passed to the nodes.

    Raises:
        TypeError: A tool is none of these.
        ValueError: A planner cannot write a tool's name, or cannot distinguish it from another; or a node to replace
            does not exist; or a model is neither a spec nor a chat model.
    """
    redact_langchain_tracing()
    context = with_models(context, model, models)
    toolbox = Toolbox(tools)
    own: dict[str, Node] = {
        "analyst": Analyst(toolbox),
        "planner": Planner(toolbox),
        "executor": Executor(toolbox),
        "verifier": Verifier(),
        "generator": Generator(),
    }
    builder = StateGraph(State, context_schema=Context, input_schema=InputState)
    chosen = {**own, **checked_nodes(nodes or {})}
    for name, node in {**chosen, "executor": conversing(chosen["executor"])}.items():
        reads = InputState if name == "analyst" else State
        builder.add_node(name, NodeRunnable(node, context), input_schema=reads)
    builder.add_edge(START, "analyst")
    builder.add_edge("analyst", "planner")
    builder.add_edge("planner", "executor")
    builder.add_conditional_edges("executor", Route(after_executor), ["executor", "verifier"])
    builder.add_conditional_edges("verifier", Route(after_verifier), ["planner", "generator"])
    builder.add_edge("generator", END)
    compiled = builder.compile(checkpointer=checkpointer, store=store, name="AgentFlow")
    durable = DURABLE if isinstance(checkpointer, BaseCheckpointSaver) else {}
    agent: Agent = OwnRecursionLimit.of(compiled)
    return agent.with_config(recursion_limit=RECURSION_LIMIT, configurable=durable)


def with_models(context: Context | None, model: Model | None, models: Mapping[Module, Model] | None) -> Context | None:
    """Return the settings with these models in place of their own; None if there are neither."""
    given = {"model": model} if model is not None else {}
    own = {"models": {**(context.models if context else {}), **models}} if models else {}
    if not given and not own:
        return context
    fields = {name: getattr(context, name) for name in context.model_fields_set} if context else {}
    return Context.model_validate({**fields, **given, **own})


class Route(Runnable[State, str]):
    """A conditional edge. Of a plain function, LangGraph makes one that takes a thread at each call and is traced."""

    def __init__(self, choose: Callable[[State], str]) -> None:
        """Set the function that returns the name of the next node."""
        self.choose, self.name = choose, choose.__name__

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Return the name of the next node."""
        return self.choose(input)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Return the name of the next node, on the event loop."""
        return self.choose(input)


def after_executor(state: State) -> Literal["executor", "verifier"]:
    """Return to the executor while a call waits to be approved or made, else continue with the verifier."""
    return "verifier" if state.pending_call is None else "executor"


def after_verifier(state: State) -> Literal["planner", "generator"]:
    """Start another round unless the run is answered or out of turns or time."""
    return "planner" if state.status == "running" else "generator"


class NodeRunnable(Runnable[Any, dict[str, Any]]):
    """A node that `graph.invoke` can call too, in which case it runs on a shared background event loop.

    It is not a RunnableLambda. That would trace each node a second time within LangGraph's own run of it, and inspect
    the signatures of its functions at every call, which together take a tenth of a rollout's time.
    """

    def __init__(self, node: Node, default: Context | None = None) -> None:
        """Set the node, and the settings for runs that have none."""
        self.node, self.default = node, default
        self.name = getattr(node, "__name__", type(node).__name__).lower()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Run the node for the graph, which has set the runtime and the config in the current context."""
        runtime = get_runtime(Context)
        if self.default and not isinstance(runtime.context, Context):
            runtime = runtime.override(context=self.default)
        if pause := input.pause() if isinstance(input, State) else 0.0:
            input = input.model_copy(update={"deadline": input.deadline + pause})
        # The generator streams the answer.
        with opened(input.messages), nullcontext() if self.name == "generator" else quiet():
            update = await self.node(input, runtime)
        return {**({"deadline": input.deadline} if pause else {}), **update, "at": time.time()}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Run the node on the background event loop, for `graph.invoke`."""
        return in_background(self.ainvoke(input, config))


def in_background(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on a shared background event loop, and wait for its result.

    A call from such a loop, which now waits, as an `async` tool may make it, gets a further one.
    """
    caller = threading.current_thread().name
    # The task inherits this thread's contextvars, which carry callbacks, the runtime and interrupts.
    running = asyncio.run_coroutine_threadsafe(coroutine, _background_loop(caller if caller.startswith(THREAD) else ""))
    try:
        return running.result()
    finally:
        running.cancel()  # Ctrl-C in the caller must not leave it running


@lru_cache
def _background_loop(caller: str) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"{THREAD}/{caller}", daemon=True).start()
    return loop


graph = build_graph()
"""The agent with the built-in tools, for programs. `langgraph.json` serves `graph.server`, which restricts clients."""
