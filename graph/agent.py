"""The agent: analyst, then rounds of planner, executor and verifier, then the generator.

One conditional edge, on the verifier's signal, decides between another round and the answer.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from agentflow.graph.clock import timed
from agentflow.graph.context import Context
from agentflow.graph.custom_node import CustomNode, checked_nodes
from agentflow.graph.events import reported
from agentflow.graph.recursion_limit import OwnRecursionLimit
from agentflow.graph.state import InputState, State
from agentflow.graph.toolbox import Toolbox
from agentflow.nodes.analyst import Analyst
from agentflow.nodes.executor import Executor
from agentflow.nodes.generator import Generator
from agentflow.nodes.planner import Planner
from agentflow.nodes.verifier import Verifier

Agent = CompiledStateGraph[State, Context, InputState, State]

RECURSION_LIMIT = 650
"""Node runs of one question: more than 100 turns of six take (with approval, and a mark before a call with side
effects), so that turns and time are what stops a run."""

DURABLE = {"__pregel_durability": "sync"}
"""LangGraph's `durability="sync"` as a default of the graph's own, which callers override: each checkpoint is on disk
before the next step begins. Marks of calls with side effects rest on it (`nodes.at_most_once`)."""


def build_graph(
    tools: Sequence[BaseTool | str] = (),
    *,
    context: Context | None = None,
    nodes: Mapping[str, CustomNode] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
) -> Agent:
    """The compiled agent.

    Args:
        tools: LangChain tools of your own, or specs of external ones (`agentflow.tools.external`); the planner may
            choose them beside those that `Context.tools` names.
        context: Settings of runs that bring no `Context` of their own, as inside a graph that has another one. A run's
            own replaces them whole.
        nodes: Functions in place of our nodes, by name: analyst, planner, executor, verifier or generator. What each is
            given and must return: `agentflow.graph.custom_node`.
        checkpointer: Keeps threads; needed for approval of tools (`open_checkpointer`). Runs are then kept with
            `durability="sync"` if the caller names no other.
        store: A LangGraph store, passed on to the nodes.

    Raises:
        ValueError: A tool's name is one that a planner cannot write, or cannot tell from another; a node to replace
            does not exist.
    """
    toolbox = Toolbox(tools)
    own: dict[str, Node] = {
        "analyst": Analyst(toolbox),
        "planner": Planner(toolbox),
        "executor": Executor(toolbox),
        "verifier": Verifier(),
        "generator": Generator(),
    }
    builder = StateGraph(State, context_schema=Context, input_schema=InputState)
    for name, node in {**own, **checked_nodes(nodes or {})}.items():
        reads = InputState if name == "analyst" else State
        builder.add_node(name, NodeRunnable(node, context), input_schema=reads)
    builder.add_edge(START, "analyst")
    builder.add_edge("analyst", "planner")
    builder.add_edge("planner", "executor")
    builder.add_conditional_edges("executor", after_executor)
    builder.add_conditional_edges("verifier", after_verifier)
    builder.add_edge("generator", END)
    compiled = builder.compile(checkpointer=checkpointer, store=store, name="AgentFlow")
    durable = DURABLE if isinstance(checkpointer, BaseCheckpointSaver) else {}
    agent: Agent = OwnRecursionLimit.of(compiled)
    return agent.with_config(recursion_limit=RECURSION_LIMIT, configurable=durable)


def after_executor(state: State) -> Literal["executor", "verifier"]:
    """A proposed call comes back to the executor to be approved or made; a finished one goes on."""
    return "verifier" if state.proposed is None else "executor"


def after_verifier(state: State) -> Literal["planner", "generator"]:
    """Another round while the run is neither answered nor out of turns or time."""
    return "planner" if state.status == "running" else "generator"


Node = Callable[[Any, Runtime[Context]], Awaitable[dict[str, Any]]]


class NodeRunnable(Runnable[Any, dict[str, Any]]):
    """A node that `graph.invoke` can call too: there it runs on one background event loop.

    Not a RunnableLambda, which would trace each node a second time within LangGraph's own run of it, and look up the
    signatures of its functions at every call: together a tenth of a rollout's time.
    """

    def __init__(self, node: Node, default: Context | None = None) -> None:
        """`default`: its settings where the run brings none."""
        self.node, self.default = timed(node), default
        self.name = getattr(node, "__name__", type(node).__name__).lower()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """As the graph calls it, which has set the runtime and the config of the context that this runs in."""
        runtime = get_runtime(Context)
        if self.default and not isinstance(runtime.context, Context):
            runtime = runtime.override(context=self.default)
        return await reported(self.node, input, runtime)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """As `graph.invoke` calls it."""
        # The task inherits this thread's contextvars, which carry callbacks, the runtime and interrupts.
        running = asyncio.run_coroutine_threadsafe(self.ainvoke(input, config), _background_loop())
        try:
            return running.result()
        finally:
            running.cancel()  # Ctrl-C in the caller must not leave the node at work


@lru_cache(maxsize=1)
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agentflow", daemon=True).start()
    return loop


graph = build_graph()
"""The agent with our tools, for programs. What `langgraph.json` serves is `graph.server`, which trusts clients less."""
