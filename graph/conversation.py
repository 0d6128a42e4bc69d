"""The conversation of a thread, as LangChain's messages hold it.

A person's last message is the question. A turn adds an `AIMessage` with its tool call and a `ToolMessage` with the
result, and the generator adds one `AIMessage` with the answer. LangGraph's `stream_mode="messages"` streams the answer
alone, as chunks that have the id of the final message.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler, _V2StreamingCallbackHandler
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import push_message
from langgraph.runtime import Runtime

from agentflow.graph.context import Context
from agentflow.graph.state import Action, Plan, State

Node = Callable[[Any, Runtime[Context]], Awaitable[dict[str, Any]]]


def asked(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Return the person's last message. In a team of agents, messages of a hand-off may follow it."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def exchanged(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what people and assistants wrote, without calls and results of tools."""
    spoken = [one for one in messages if isinstance(one, HumanMessage | AIMessage) and one.text.strip()]
    return [one for one in spoken if not (isinstance(one, AIMessage) and one.tool_calls)]


def turn_messages(plan: Plan, action: Action) -> list[AnyMessage]:
    """Return a turn's call and its result; nothing if the plan named no tool to call."""
    if plan.error:
        return []
    call, result = uuid4().hex, action.result
    status: Any = "success" if result.error is None else "error"
    return [
        AIMessage(
            plan.sub_goal,
            id=str(uuid4()),
            tool_calls=[{"name": plan.tool, "args": action.arguments, "id": call, "type": "tool_call"}],
        ),
        ToolMessage(result.output, id=str(uuid4()), tool_call_id=call, name=plan.tool, status=status),
    ]


def conversing(executor: Node) -> Node:
    """Return the executor with the messages of the turn in its update."""

    async def run(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await executor(state, runtime)
        action = update.get("action")
        if not isinstance(action, Action) or state.plan is None or "messages" in update:
            return update
        result = action.result.shortened(Context.of(runtime).result_tokens)
        messages = turn_messages(state.plan, action.model_copy(update={"result": result}))
        # LangGraph streams every message that a node returns, but not one that it sends to the state.
        get_config()["configurable"]["__pregel_send"]([("messages", messages)])
        return update

    run.__name__ = "executor"
    return run


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what models write inside the block out of `stream_mode="messages"`."""
    config = get_config()
    token = var_child_runnable_config.set({**config, "tags": [*(config.get("tags") or []), TAG_NOSTREAM]})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def answer_stream(message_id: str) -> Callable[[str], None] | None:
    """Return a function that streams text as a chunk of the message `message_id`; None if nobody reads the stream."""
    callbacks = get_config().get("callbacks")
    handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or []
    # Version 3 of LangGraph's events takes the whole message from the node, and would lose it after a chunk.
    if any(isinstance(one, _V2StreamingCallbackHandler) for one in handlers):
        return None
    if not any(isinstance(one, _StreamingCallbackHandler) for one in handlers):
        return None

    def push(text: str) -> None:
        push_message(AIMessageChunk(content=text, id=message_id), state_key=None)

    return push
