"""Code that all baselines share: the graph with the start of a run, and a model call within the run's time limit."""

import asyncio
import time
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from agentflow.graph.agent import RECURSION_LIMIT, Agent, NodeRunnable
from agentflow.graph.context import Context, Module
from agentflow.graph.conversation import Node
from agentflow.graph.models.loading import ask
from agentflow.graph.state import InputState, State
from agentflow.nodes.analyst import begin


async def start(state: InputState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Node: read the question and clear the memory. Raises ModelError if there is no question."""
    context = Context.of(runtime)
    # No generator follows, so that nothing is kept for it.
    return {**begin(state, context), "deadline": time.time() + context.max_seconds}


def graph_of(name: str, **nodes: Node) -> Agent:
    """Return the compiled graph whose nodes take turns, in the order given, until one of them ends the run."""
    builder = StateGraph(State, context_schema=Context, input_schema=InputState)
    builder.add_node("start", NodeRunnable(start), input_schema=InputState)
    for node, function in nodes.items():
        builder.add_node(node, NodeRunnable(function))
    builder.add_edge(START, "start")
    first, *_ = nodes
    builder.add_edge("start", first)
    for node, following in pairwise([*nodes, first]):
        builder.add_conditional_edges(node, _running, {True: following, False: END})
    return builder.compile(name=name).with_config(recursion_limit=RECURSION_LIMIT)


def _running(state: State) -> bool:
    return state.status == "running"


async def ask_in_time(context: Context, module: Module, messages: list[BaseMessage], seconds: float) -> str | None:
    """Return the reply of the module's model, None if it takes longer than `seconds`. Raises ModelError."""
    try:
        async with asyncio.timeout(seconds):
            return await ask(context, module, messages)
    except TimeoutError:
        return None
