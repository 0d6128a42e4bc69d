"""Code that all baselines share: the start of a run, and a model call within the run's time limit."""

import asyncio
import time
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime

from agentflow.graph.context import Context, Module
from agentflow.graph.models.loading import ask
from agentflow.graph.state import InputState
from agentflow.nodes.analyst import begin


async def start(state: InputState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Node: read the question and clear the memory. Raises ModelError if there is no question."""
    context = Context.of(runtime)
    # No generator follows, so that nothing is kept for it.
    return {**begin(state, context), "deadline": time.time() + context.max_seconds}


async def ask_in_time(context: Context, module: Module, messages: list[BaseMessage], seconds: float) -> str | None:
    """Return the reply of the module's model, None if it takes longer than `seconds`. Raises ModelError."""
    try:
        async with asyncio.timeout(seconds):
            return await ask(context, module, messages)
    except TimeoutError:
        return None
